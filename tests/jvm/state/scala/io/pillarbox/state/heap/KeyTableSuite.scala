package io.pillarbox.state.heap

import java.util.concurrent.{FutureTask, TimeUnit}

import scala.collection.mutable
import scala.util.Try

import io.pillarbox.api.ScalaSerializers
import io.pillarbox.state.Namespace
import org.scalatest.funsuite.AnyFunSuite

/** What the table keeps of changes, beside the keys that the contract suites test. */
class KeyTableSuite extends AnyFunSuite {

  test("a position that is freed and taken again is among the changed once") {
    val table = new KeyTable[Long](ScalaSerializers.long, hasTimestamps = false, tracksChanges = true)
    table.free(added(table, 1))
    assert(changed(table).isEmpty)
    val second = added(table, 2)
    table.touch(second)
    assert(changed(table) == Seq(2L))
    table.free(second)
    table.commitChanges(_ => ())
    added(table, 3)
    assert(changed(table) == Seq(3L))
  }

  test("what was committed and changed is known though the index grows and others leave") {
    val table = new KeyTable[Long](ScalaSerializers.long, hasTimestamps = false, tracksChanges = true)
    val random = new scala.util.Random(3)
    val committed = mutable.Set.empty[Long]
    val positions = mutable.Map.empty[Long, Int]
    for (round <- 0 until 5) {
      (0L until 1000L).foreach(i => positions(round * 1000L + i) = added(table, round * 1000L + i))
      positions.foreach { case (key, at) => assert(table.isCommitted(at) == committed(key), s"key $key") }
      table.commitChanges(_ => ())
      committed ++= positions.keys
      random.shuffle(positions.keys.toVector.sorted).take(400).foreach { key =>
        table.free(positions.remove(key).get)
        committed -= key
      }
      assert(changed(table).isEmpty)
    }
    positions.foreach { case (key, at) =>
      assert(table.find(key, ScalaSerializers.long.hash(key), Namespace.Void) == at)
      assert(table.isCommitted(at))
      table.markUncommitted(at)
      assert(!table.isCommitted(at))
    }
  }

  test("an entry that is not there ends the search for it, also where no one else is") {
    for (others <- Seq(0, 1, 15, 100)) {
      val table = new KeyTable[Long](ScalaSerializers.long, hasTimestamps = false, tracksChanges = true)
      (1L to others.toLong).foreach(added(table, _))
      val entry = added(table, 0)
      table.free(entry)
      Seq[Int => Unit](table.free, table.touch, table.isCommitted(_): Unit, table.markCommitted).foreach {
        use =>
          val gone = intercept[IllegalStateException](ends(use(entry)))
          assert(gone.getMessage.contains(s"no entry at position $entry"))
      }
      assert(table.used == others)
    }
  }

  /** Fails if it takes long; a loop without end can only be left behind. */
  private def ends(body: => Unit): Unit = {
    val outcome = new FutureTask[Try[Unit]](() => Try(body))
    val thread = new Thread(outcome, "must end")
    thread.setDaemon(true)
    thread.start()
    outcome.get(10, TimeUnit.SECONDS).get
  }

  private def added(table: KeyTable[Long], key: Long): Int = {
    val entry = table.insert(key, ScalaSerializers.long.hash(key), Namespace.Void)
    table.setValue(entry, s"value $key")
    table.touch(entry)
    entry
  }

  private def changed(table: KeyTable[Long]): Seq[Long] = {
    val keys = mutable.ArrayBuffer.empty[Long]
    table.forEachChanged(entry => keys += table.key(entry))
    keys.toSeq
  }
}
