package io.pillarbox.timer

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import io.pillarbox.api.ScalaSerializers
import io.pillarbox.state.rocksdb.store.{RocksDBConfig, RocksDBStore}
import io.pillarbox.testing.TestDisk
import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite

class TimerFamiliesSuite extends AnyFunSuite with BeforeAndAfterEach {
  private var root: Path = _

  override protected def beforeEach(): Unit = root = TestDisk.newDirectory("pillarbox-timer-families")

  override protected def afterEach(): Unit = TestDisk.delete(root)

  private def withStore(families: Seq[String])(body: RocksDBStore => Unit): Unit = {
    val config = RocksDBConfig(root.resolve("db"), memoryLimit = 32L << 20, families = families)
    val store = new RocksDBStore(config)
    try body(store)
    finally store.close()
  }

  /** RocksDB writes another file of options whenever a column family is created or its options change. */
  private def optionsFiles: Set[String] = {
    val files = Files.list(root.resolve("db"))
    try files.iterator.asScala.map(_.getFileName.toString).filter(_.startsWith("OPTIONS-")).toSet
    finally files.close()
  }

  private def names(store: RocksDBStore): Seq[String] =
    store.columnFamilies.map(family => new String(family.getName)).sorted

  test("a new database has the timers' column families, which compact, without another file of options") {
    withStore(TimerQueues.families) { store =>
      val before = optionsFiles
      val found = TimerQueues.families.map(store.columnFamily)
      assert(found.forall(store.compacts) && optionsFiles == before)
      store.columnFamily("another")
      assert(optionsFiles != before)
    }
  }

  test("timers use those that are there from the beginning, and no others") {
    withStore(TimerQueues.families) { store =>
      val before = names(store)
      val fixture = new TimerFixture[Long](TimerQueues.inDatabase(store), ScalaSerializers.long)
      fixture.event(1L, 10L)
      fixture.advanceWatermark(10L)
      assert(fixture.fired.size == 1 && names(store) == before)
    }
  }

  test("a database that is there gets no column families, and its own compact again") {
    withStore(Nil)(_.columnFamily("timers-event"): Unit)
    withStore(TimerQueues.families) { store =>
      assert(names(store) == Seq("default", "timers-event"))
      assert(store.compacts(store.columnFamily("timers-event")))
    }
  }
}
