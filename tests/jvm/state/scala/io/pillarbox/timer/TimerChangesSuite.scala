package io.pillarbox.timer

import java.nio.file.Path

import io.pillarbox.api.{InputView, ScalaSerializers, TimeDomain}
import io.pillarbox.queue.RocksDBOrderedByteStore
import io.pillarbox.state.Namespace
import io.pillarbox.state.rocksdb.cache.CacheBudget
import io.pillarbox.state.rocksdb.store.{RocksDBConfig, RocksDBStore}
import io.pillarbox.testing.TestDisk
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.tags.Slow

/** Changes of timers that wait for a commit, more than memory may take for them. */
@Slow
class TimerChangesSuite extends AnyFunSuite with BeforeAndAfterAll {
  private lazy val root: Path = TestDisk.newDirectory("pillarbox-timer-changes")
  private lazy val databases: Seq[RocksDBStore] =
    (0 to 1).map(i => new RocksDBStore(RocksDBConfig(root.resolve(s"db$i"), memoryLimit = 32L << 20)))

  override protected def afterAll(): Unit = {
    databases.foreach(_.close())
    TestDisk.delete(root)
  }

  private val many = 0L until 200000L

  /** Registers many, deletes a third, registers a sixth again, and fires those below 1,000. */
  private def change(timers: TimerFixture[Long]): Unit = {
    many.foreach(key => timers.event(key, key))
    many.filter(_ % 3 == 0).foreach { key =>
      timers.currentKey = key
      timers.service.delete(TimeDomain.EVENT_TIME, Namespace.Void, key)
    }
    many.filter(_ % 6 == 0).foreach(key => timers.event(key, key))
    timers.advanceWatermark(999)
    timers.takeFired()
  }

  private val left = many.filter(time => time > 999 && time % 6 != 3)

  private def checkRestored(log: Array[Byte], queues: TimerQueues): Unit = {
    val restored = TimerFixture.ofLongs(queues)
    restored.restore(log)
    restored.advanceWatermark(Long.MaxValue)
    assert(restored.takeFired() == left.map(time => (time, time)))
    restored.service.close()
  }

  test("changes that are too many for memory go to the disk, each is there once, as it was last") {
    val timerType = new TimerType(TimeDomain.EVENT_TIME, ScalaSerializers.long)
    val changes = new StoredTimerChanges(timerType, databases.head, "changes", 10000, CacheBudget.Unlimited)
    def add(time: Long, isAdded: Boolean): Unit =
      changes.add(timerType.newTimer(time % 7, Namespace.Void, time), isAdded)
    try
      for (_ <- 1 to 2) {
        (0L until 50L).foreach(add(_, isAdded = true))
        assert(!changes.isSpilled)
        (0L until 20000L).foreach(add(_, isAdded = true))
        (0L until 20000L by 2).foreach(add(_, isAdded = false))
        assert(changes.isSpilled && changes.used < 11000)
        assert(timesOf(changes, timerType) == (0L until 20000L).map(time => (time, time % 2 == 1)))
        changes.clear()
        assert(!changes.isSpilled && changes.used == 0 && timesOf(changes, timerType).isEmpty)
      }
    finally changes.close()
  }

  test("what many partitions have beyond a little is theirs together, and goes back after a commit") {
    val (budget, timerType) =
      (new CacheBudget(1 << 20), new TimerType(TimeDomain.EVENT_TIME, ScalaSerializers.long))
    val database = new RocksDBStore(RocksDBConfig(root.resolve("shared"), memoryLimit = 32L << 20))
    val parts = (1 to 8).map(n => new StoredTimerChanges(timerType, database, s"part $n", 4 << 20, budget))
    (0L until 20000L).foreach { time =>
      parts.foreach(_.add(timerType.newTimer(time % 7, Namespace.Void, time), isAdded = true))
    }
    assert(parts.map(_.used).sum < (1 << 20) + 8 * (65 << 10) && parts.exists(_.isSpilled))
    parts.foreach { part =>
      assert(timesOf(part, timerType).size == 20000)
      part.clear()
    }
    assert(budget.used == 0)
    val store =
      new RocksDBOrderedByteStore(database, database.columnFamily("timers"), shared = budget)
    (0 until 20000).foreach(n => store.put(Array.tabulate(8)(at => (n >> at).toByte) ++ n.toString.getBytes))
    assert(budget.used > 0)
    store.flush()
    assert(budget.used == 0)
    (0 until 20000).foreach(n => store.put(n.toString.getBytes))
    database.close()
    assert(budget.used == 0)
  }

  private def timesOf(changes: TimerChanges[Long], timerType: TimerType[Long]): Seq[(Long, Boolean)] = {
    val serializer = new TimerSerializer(timerType)
    val found = Seq.newBuilder[(Long, Boolean)]
    changes.forEach { (bytes, offset, length, isAdded) =>
      val timer = serializer.deserialize(new InputView().wrap(bytes, offset, length))
      assert(timer.key == timer.timestamp % 7)
      found += (timer.timestamp -> isAdded)
    }
    found.result()
  }

  test("changes of very many timers in a database come back right in a delta") {
    val timers = TimerFixture.ofLongs(TimerQueues.inDatabase(databases.head))
    change(timers)
    val delta = timers.commit()
    checkRestored(delta, TimerQueues.Heap)
    checkRestored(delta, TimerQueues.inDatabase(databases.last))
    assert(timers.commit().length < 100)
    timers.service.close()
  }

  test("changes of timers on the heap stay there, however many, and come back right in a delta") {
    val timers = TimerFixture.ofLongs(TimerQueues.Heap)
    change(timers)
    checkRestored(timers.commit(), TimerQueues.Heap)
    assert(timers.commit().length < 100)
  }

  test("a commit that fails leaves spilled changes uncommitted") {
    val timers = TimerFixture.ofLongs(TimerQueues.inDatabase(databases.head, changeBytes = 1000))
    many.take(1000).foreach(key => timers.processing(key, key))
    assertThrows[java.io.IOException](timers.service.commit(FullDisk))
    val restored = TimerFixture.ofLongs(TimerQueues.Heap)
    restored.restore(timers.commit())
    assert(restored.service.numTimers(TimeDomain.PROCESSING_TIME) == 1000)
    timers.service.close()
  }
}

/** Takes nothing. */
private[timer] object FullDisk extends java.io.OutputStream {
  override def write(b: Int): Unit = throw new java.io.IOException("full")
}
