package io.pillarbox.spark.state

import java.nio.file.{Files, Path}

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.api.TimeDomain
import io.pillarbox.spark.LocalSpark
import io.pillarbox.spark.checkpoint._
import io.pillarbox.spark.state.CheckpointPartition.{Heap, RocksDB, storageOf}
import io.pillarbox.state.rocksdb.RocksDBKeyedStateBackend
import io.pillarbox.state.{Namespace, StateRestoreException}
import io.pillarbox.tags.Nightly
import org.apache.commons.io.FileUtils
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.BoundReference
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.types.LongType
import org.scalatest.funsuite.AnyFunSuite

/** State whose number of partitions changes between two versions. */
class PartitionsSuite extends AnyFunSuite with LocalSpark {
  import PartitionsSuite._

  // Local folders are Spark's.
  assert(spark != null)

  private def withOperator(body: Operator => Unit): Unit = {
    val folder = Files.createTempDirectory("operator")
    try body(new Operator(folder))
    finally FileUtils.deleteDirectory(folder.toFile)
  }

  /** Partitions with a snapshot of thirty keys, and one change more. */
  private def withSnapshots(partitions: Int, storage: StateStorage)(body: Operator => Unit): Unit =
    withOperator { operator =>
      operator.start(partitions, storage)
      operator.commit((0L until 30L).map(key => key -> Some(key)))
      operator.snapshotAll()
      operator.commit(Seq(1L -> Some(5L)))
      body(operator)
    }

  for {
    (name, storage) <- Seq("heap" -> Heap, "rocksdb" -> RocksDB, "both" -> storageOf("rocksdb", "heap"))
    seed <- 1 to 7
  } test(
    s"$name: keys, values and timers are the same over random changes and restarts, seed $seed",
    // A database is among "both".
    Seq(Nightly).filter(_ => seed > 1 || name == "rocksdb"): _*
  ) {
    withOperator { operator =>
      val random = new Random(seed)
      operator.start(1 + random.nextInt(4), storage)
      (1 to 8).foreach { _ =>
        val changes = Seq.fill(6)(random.nextLong(40) -> Some(random.nextLong(100)).filter(_ > 20))
        if (random.nextBoolean()) operator.commit(changes)
        else operator.whileSwept(operator.commit(changes))
        if (random.nextInt(3) == 0) operator.snapshot(random.nextInt(operator.partitions))
        random.nextInt(3) match {
          case 0 => operator.start(1 + random.nextInt(6), storage)
          case 1 => operator.reload(storage)
          case _ => ()
        }
        operator.check()
      }
    }
  }

  test("a multiple of partitions goes on with copies of the databases, from which others' entries go") {
    withSnapshots(2, RocksDB) { operator =>
      operator.start(6, RocksDB)
      operator.check()
      assert(operator.databases.forall(!_.store.hidden.isEmpty))
      operator.commit((0L until 30L).map(key => key -> (if (key % 3 == 0) None else Some(-key))))
      operator.start(12, RocksDB)
      operator.check()
      operator.whileSwept(operator.commit(Seq(40L -> Some(40L))))
      operator.check()
      assert(operator.databases.forall(_.store.hidden.isEmpty))
      operator.snapshotAll()
      assert(operator.tidy(oldest = 4))
      operator.reload(RocksDB)
      operator.check()
      operator.start(12, Heap)
      operator.check()
    }
  }

  test("a key that is not where its hash puts it is found in a database that is opened in place") {
    withOperator { operator =>
      operator.start(2, RocksDB)
      val (partition, open) = operator.open(1)
      val stray = (0L to 9L).find(placeOf(_, 2) == 0).get
      operator.replace(1, partition.commit(open, "stray", stray, 1L))
      operator.replace(0, operator.open(0)._1.commit(operator.open(0)._2, "other"))
      operator.snapshotAll()
      val error = intercept[StateRestoreException] {
        operator.start(4, RocksDB)
        operator.databases.foreach(_.store.hidden.sweep())
      }
      assert(error.condition == "STATE_KEY_MISPLACED" && error.getMessage.contains("partition 0 of 2"))
    }
  }

  test("state moves to other partitions and to the other backend at once") {
    withOperator { operator =>
      operator.start(2, RocksDB)
      operator.commit((0L until 30L).map(key => key -> Some(key)))
      operator.snapshotAll()
      operator.commit((0L until 9L).map(key => key -> None))
      operator.start(3, Heap)
      operator.check()
      operator.commit(Seq(3L -> Some(3L)))
      operator.start(5, RocksDB)
      operator.check()
    }
  }

  test("a damaged snapshot of an earlier partition is passed over where its deltas are there") {
    withSnapshots(2, Heap) { operator =>
      val partition = operator.open(1)._1
      partition.damage(partition.folder.list().find(_.kind.isFull).get)
      operator.start(3, Heap)
      operator.check()
    }
  }

  test("earlier files go when each partition has a snapshot that the oldest version is loaded from") {
    withSnapshots(4, RocksDB) { operator =>
      operator.start(2, RocksDB)
      (1 to 3).foreach(i => operator.commit(Seq(7L -> Some(i.toLong))))
      operator.snapshot(0)
      operator.commit(Seq(7L -> Some(9L)))
      assert(!operator.tidy(oldest = 6))
      operator.reload(RocksDB)
      operator.check()
      operator.snapshotAll()
      assert(!operator.tidy(oldest = 5), "one partition's oldest version needs them")
      assert(operator.tidy(oldest = 6))
      assert(operator.files.forall { case (number, file) => number < 2 && file.version > 2 })
      operator.reload(RocksDB)
      operator.check()
    }
  }

  test("a clean-up of a run that has ended leaves what a later one with more partitions wrote") {
    withSnapshots(4, Heap) { operator =>
      operator.start(2, Heap)
      (1 to 3).foreach(i => operator.commit(Seq(7L -> Some(i.toLong))))
      operator.snapshotAll()
      val late = operator.tidyOfNow(oldest = 5)
      operator.start(4, Heap)
      operator.commit((0L until 30L).map(key => key -> Some(key + 1)))
      assert(late())
      operator.reload(Heap)
      operator.check()
    }
  }

  test("a partition's own clean-up leaves the files that other partitions need") {
    withSnapshots(2, RocksDB) { operator =>
      operator.start(4, RocksDB)
      (1 to 4).foreach(i => operator.commit(Seq(7L -> Some(i.toLong))))
      operator.snapshot(0)
      operator.open(0)._1.cleanUp(operator.open(0)._2, oldest = 6)
      operator.reload(RocksDB)
      operator.check()
    }
  }

  test("a key that is not where its hash puts it is refused, with its partition") {
    withOperator { operator =>
      operator.start(2, Heap)
      val (partition, open) = operator.open(1)
      val stray = (0L to 9L).find(placeOf(_, 2) == 0).get
      operator.replace(1, partition.commit(open, "stray", stray, 1L))
      operator.replace(0, operator.open(0)._1.commit(operator.open(0)._2, "other"))
      val error = intercept[StateRestoreException] {
        operator.start(3, Heap)
        operator.check()
      }
      assert(error.condition == "STATE_KEY_MISPLACED" && error.getMessage.contains("partition 0 of 2"))
    }
  }
}

object PartitionsSuite {
  private def placeOf(key: Long, partitions: Int): Int =
    HashPartitioning(Seq(BoundReference(0, LongType, nullable = true)), partitions).partitionIdExpression
      .eval(InternalRow(key))
      .asInstanceOf[Int]

  /** An operator's folder, what should be in it, and its partitions, which commit together. */
  private final class Operator(folder: Path) {
    private var layout: StateLayout = _
    private var version = 0L
    private var parts = Vector.empty[(CheckpointPartition, VersionedState)]
    private val expected = mutable.Map.empty[Long, Long]
    private val timers = mutable.Set.empty[(Long, Long)]

    def partitions: Int = layout.partitions

    def databases: Seq[RocksDBKeyedStateBackend[_]] =
      parts.map(_._2.state.backend).collect { case database: RocksDBKeyedStateBackend[_] => database }

    /** Runs `action` while what is of other partitions is deleted. */
    def whileSwept(action: => Unit): Unit = {
      val states = parts.map(_._2.state)
      val sweep = new Thread(() => states.foreach(_.sweep()))
      sweep.start()
      action
      sweep.join()
    }

    def open(number: Int): (CheckpointPartition, VersionedState) = parts(number)

    def replace(number: Int, open: VersionedState): Unit = {
      version = open.version.number
      parts = parts.updated(number, parts(number)._1 -> open)
    }

    /** A run of the query with so many partitions. */
    def start(count: Int, storage: StateStorage): Unit = {
      val ids = parts.map(_._2.version.id)
      if (version == 0) layout = StateLayout(count)
      else if (version == layout.since) layout = layout.copy(partitions = count)
      else layout = StateLayout(count, Some(StateLayout.Earlier(version, layout, ids)))
      load(storage, _ => None)
    }

    /** A run with as many as before. */
    def reload(storage: StateStorage): Unit = {
      val ids = parts.map(_._2.version.id)
      load(storage, ids.apply)
    }

    private def load(storage: StateStorage, idOf: Int => Option[String]): Unit = {
      parts.foreach(_._2.close())
      parts = (0 until layout.partitions).toVector.map { number =>
        val partition = new CheckpointPartition(folder, FileNames.Ids, storage, number, layout)
        partition -> partition.loader.load(StateVersion(version, idOf(number)))
      }
    }

    /** Sets values, each with a timer of its own, or removes them. */
    def commit(changes: Seq[(Long, Option[Long])]): Unit = {
      changes.foreach { case (key, to) => to.fold(expected.remove(key): Unit)(expected(key) = _) }
      parts = parts.zipWithIndex.map { case ((partition, open), number) =>
        changes.filter(change => placeOf(change._1, partitions) == number).foreach { case (key, to) =>
          partition.update(open, key, to)
          to.foreach { time =>
            open.state.timers.register(TimeDomain.EVENT_TIME, Namespace.Void, time)
            timers += key -> time
          }
        }
        partition -> partition.commit(open, s"v${version + 1}p$number-${Random.nextInt(1000000)}")
      }
      version += 1
    }

    def snapshot(number: Int): Unit =
      if (version > layout.since) parts(number)._1.ownSnapshot(parts(number)._2)

    def snapshotAll(): Unit = parts.indices.foreach(snapshot)

    def tidy(oldest: Long): Boolean = tidyOfNow(oldest)()

    /** The clean-up that this version queues, which may run when there are later ones. */
    def tidyOfNow(oldest: Long): () => Boolean = {
      val files = new EarlierFiles(new HadoopPath(folder.toUri), layout, new Configuration)
      val (until, current) = (version, parts.map(_._2.version))
      () => files.deleteBefore(oldest, until, current)
    }

    def files: Seq[(Int, StateFile)] = for {
      number <- 0 until 10
      file <- new StateFolder(new HadoopPath(folder.toUri.toString, number.toString), new Configuration)
        .list()
    } yield number -> file

    /** Other partitions' keys may be in a database for a while, and nobody asks for them. */
    def check(): Unit = {
      val found = for {
        ((partition, open), number) <- parts.zipWithIndex
        key <- 0L to 40L if placeOf(key, partitions) == number || hidesNothing(open)
        value <- partition.read(open, key)
      } yield {
        assert(placeOf(key, partitions) == number, s"key $key")
        key -> value
      }
      assert(found.sorted == expected.toSeq.sorted, s"version $version of $layout")
      assert(parts.map { case (partition, open) => partition.timers(open) }.sum == timers.size)
    }

    private def hidesNothing(open: VersionedState) = open.state.backend match {
      case database: RocksDBKeyedStateBackend[_] => database.store.hidden.isEmpty
      case _ => true
    }
  }
}
