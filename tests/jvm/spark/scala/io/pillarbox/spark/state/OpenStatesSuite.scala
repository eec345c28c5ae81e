package io.pillarbox.spark.state

import java.io.OutputStream
import java.util.UUID
import java.util.concurrent.{CompletableFuture, CountDownLatch, TimeUnit}

import io.pillarbox.api.{Serializers, StateDescriptor}
import io.pillarbox.spark.LocalSpark
import io.pillarbox.spark.checkpoint.StateVersion
import io.pillarbox.spark.task.OperatorFigure
import io.pillarbox.state.KeyedStateBackend
import io.pillarbox.state.heap.HeapKeyedStateBackend
import io.pillarbox.state.rocksdb.RocksDBKeyedStateBackend
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.pillarbox.{LocalFolders, StatePartition}
import org.apache.spark.sql.types.StructType
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

class OpenStatesSuite extends AnyFunSuite with LocalSpark with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(30, Seconds))

  private val schema = StructType.fromDDL("x bigint")
  private val first = StateVersion(1, Some("first"))

  private def opened(number: Int = 0): (StatePartition, VersionedState) = {
    spark.sparkContext // the database's folder belongs to a running Spark
    val partition = StatePartition("none", 0, number, UUID.randomUUID())
    val state: PartitionState = StateBackends.forStream(CheckpointPartition.RocksDB, schema, 16L << 20)
    val versioned = new VersionedState(state, first, 0)
    OpenStates.checkIn(partition, versioned)
    (partition, versioned)
  }

  test("state whose timers don't open is closed again") {
    val keys = new UnsafeRowSerializer(schema)
    var backend: KeyedStateBackend[UnsafeRow] = null
    intercept[IllegalStateException] {
      new PartitionState(
        clock => {
          backend = new HeapKeyedStateBackend(keys, clock)
          backend
        },
        _ => throw new IllegalStateException,
        () => (),
        true
      )
    }
    val descriptor = StateDescriptor.value("s", keys)
    assert(intercept[Exception](backend.timestampedValue(descriptor)).getMessage.contains("closed"))
  }

  Seq[(String, StatePartition => Unit)](
    "whoever wants the state" -> (OpenStates.checkOut(_, first): Unit),
    "whoever closes it" -> OpenStates.unload
  ).foreach { case (who, wait) =>
    test(s"an interrupt of $who, while a snapshot is taken, leaves the state open for the next") {
      val (partition, versioned) = opened()
      val taken, mayEnd = new CountDownLatch(1)
      val snapshot = new Thread(() =>
        OpenStates.whileIdle(partition) { _ =>
          taken.countDown()
          mayEnd.await()
        }: Unit
      )
      snapshot.start()
      taken.await()
      val told = new CompletableFuture[Throwable]
      val waiting = new Thread(() =>
        try wait(partition)
        catch { case e: Throwable => told.complete(e): Unit }
      )
      waiting.start()
      eventually(assert(waiting.getState == Thread.State.WAITING))
      waiting.interrupt()
      assert(told.get(30, TimeUnit.SECONDS).isInstanceOf[InterruptedException])
      mayEnd.countDown()
      snapshot.join()
      assert(OpenStates.checkOut(partition, first).contains(versioned))
      versioned.close()
    }
  }

  test("the entries of open state are in Spark's metrics system until it is closed") {
    val entries = OperatorFigure.of("open states", "stateEntries")
    val (_, one) = opened()
    val (_, other) = opened()
    Seq(3L, 5L).foreach(one.show("open states", _))
    other.show("open states", 2)
    assert(entries.getValue == 7)
    one.close()
    assert(entries.getValue == 2)
    other.close()
    assert(entries.getValue == 0)
  }

  test("a snapshot is due after so many deltas, or once they are large and half as large as the last one") {
    val (_, versioned) = opened()
    def isDueAfter(bytes: Long*): Boolean = {
      bytes.foreach(versioned.committed)
      versioned.askSnapshot(every = 3, partition = 0)
    }
    def takeSnapshot(bytes: Long): Unit = {
      versioned.snapshotTaken(bytes)
      versioned.snapshotEnded()
    }
    assert(!isDueAfter(1, 1) && isDueAfter(1))
    assert(!isDueAfter(1), "it was asked for")
    versioned.snapshotEnded()
    assert(isDueAfter(1), "it was not taken")
    takeSnapshot(bytes = 1000)
    assert(!isDueAfter(1000) && isDueAfter(64L << 20))
    takeSnapshot(bytes = 1L << 30)
    assert(!isDueAfter(500L << 20) && isDueAfter(12L << 20))
    versioned.close()
  }

  test("first snapshots are due at other times in each partition, and each next one after as many deltas") {
    def due(partition: Int): Seq[Int] = {
      val (_, versioned) = opened()
      try
        (1 to 30).filter { _ =>
          versioned.committed(1)
          val isDue = versioned.askSnapshot(every = 10, partition)
          if (isDue) {
            versioned.snapshotTaken(bytes = 1)
            versioned.snapshotEnded()
          }
          isDue
        }
      finally versioned.close()
    }
    assert(due(partition = 0) == Seq(10, 20, 30))
    val first = (0 until 20).map { partition =>
      val versions = due(partition)
      assert(versions.zip(versions.tail).forall { case (one, next) => next - one == 10 })
      versions.head
    }
    assert(first.take(3) == Seq(10, 4, 8))
    assert(first.toSet == (1 to 10).toSet && first.groupBy(identity).values.forall(_.size <= 3))
  }

  test("a large cache is written half-way to a snapshot, once, and its entries stay readable") {
    val (partition, versioned) = opened()
    val backend = versioned.state.backend.asInstanceOf[RocksDBKeyedStateBackend[UnsafeRow]]
    val values = backend.getOrCreate(StateDescriptor.value("v", Serializers.ofBytes))
    def written: Long = backend.store.property("rocksdb.total-sst-files-size")
    def commit(numbers: Range, bytes: Int): Unit = {
      versioned.state.takeOver()
      numbers.foreach { number =>
        backend.setCurrentKey(CheckpointPartition.row(number.toLong))
        values.update(Array.fill(bytes)(number.toByte))
      }
      backend.commit(OutputStream.nullOutputStream)
      versioned.committed(1)
    }
    commit(0 until 20, bytes = 1000)
    commit(0 until 20, bytes = 1000)
    assert(!versioned.askWrite(every = 4), "the cache is small")
    commit(0 until 20, bytes = 1 << 20)
    assert(!versioned.askWrite(every = 10), "it is too early")
    assert(versioned.askWrite(every = 4) && written == 0)
    StateMaintenance.writeSoon(partition)
    StateMaintenance.awaitDone()
    eventually(assert(written > 0))
    assert(!versioned.askWrite(every = 4), "it was written")
    versioned.state.takeOver()
    backend.setCurrentKey(CheckpointPartition.row(7))
    assert(values.value().sameElements(Array.fill(1 << 20)(7.toByte)))
    versioned.snapshotTaken(1)
    commit(0 until 1, bytes = 1)
    commit(0 until 1, bytes = 1)
    assert(versioned.askWrite(every = 4), "a snapshot was taken")
    versioned.close()
  }

  test("state that is taken while a snapshot of it waits is not given to the snapshot") {
    val (partition, versioned) = opened()
    assert(OpenStates.checkOut(partition, first).contains(versioned))
    assert(!OpenStates.whileIdle(partition)(_ => fail("it is in use")))
    versioned.close()
  }

  test("what an earlier run has left of a partition is closed, and no other state") {
    val Seq(earlier, running, other) = Seq(0, 0, 1).map(opened(_)._1)
    OpenStates.unloadEarlier(running)
    assert(Seq(earlier, running, other).filter(OpenStates.partitions.contains) == Seq(running, other))
    OpenStates.unloadEarlier(earlier)
    OpenStates.unload(other)
    assert(!OpenStates.partitions.contains(running) && !OpenStates.partitions.contains(other))
  }

  test("a function that can't be closed does not fail the task that needs other state") {
    val (partition, versioned) = opened()
    versioned.state.kept = () => throw new IllegalStateException("no connection")
    assert(OpenStates.checkOut(partition, StateVersion(1, Some("second"))).isEmpty)
    val (_, another) = opened()
    another.state.kept = () => throw new NoClassDefFoundError("com/acme/Gone")
    another.close()
  }

  test("an error in the background does not end what is done there") {
    val (partition, versioned) = opened()
    val (_, other) = opened()
    versioned.state.kept = () => throw new OutOfMemoryError("as a test")
    StateMaintenance.unload(partition)
    StateMaintenance.close(other)
    StateMaintenance.awaitDone()
    assert(!OpenStates.partitions.contains(partition))
    StateMaintenance.unloadInactive()
  }

  test("a snapshot is taken on the disk of the database, where files can be linked") {
    val (_, versioned) = opened()
    val folder = LocalFolders.beside(versioned.state.directory, "snapshot")
    try assert(folder.path.getParent == versioned.state.directory.getParent)
    finally folder.close()
    versioned.close()
  }

  test("state that another attempt left is closed, not handed out") {
    val (partition, _) = opened()
    assert(OpenStates.checkOut(partition, StateVersion(1, Some("second"))).isEmpty)
    assert(!OpenStates.partitions.contains(partition))
  }
}
