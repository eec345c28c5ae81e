package io.pillarbox.spark.state

import java.nio.file.Files
import java.util.UUID

import scala.util.Random

import io.pillarbox.api.TimeDomain
import io.pillarbox.spark.LocalSpark
import io.pillarbox.spark.checkpoint._
import io.pillarbox.spark.state.CheckpointPartition.{Heap, RocksDB, storageOf}
import io.pillarbox.state.{Namespace, StateException}
import io.pillarbox.tags.Soak
import io.pillarbox.testing.FewAndMany
import org.apache.spark.sql.pillarbox.LocalFolders
import org.scalatest.funsuite.AnyFunSuite

/** Snapshots of RocksDB that share their tables. */
class DatabaseSnapshotSuite extends AnyFunSuite with LocalSpark with FewAndMany {
  // Local folders are Spark's.
  assert(spark != null)

  /** Commits versions until `to`, with a snapshot after every `every`. */
  private def grow(
      partition: CheckpointPartition,
      from: VersionedState,
      to: Int,
      every: Int
  ): VersionedState =
    ((from.version.number.toInt + 1) to to).foldLeft(from) { (open, i) =>
      val next = partition.commit(open, s"id-$i", i.toLong, i.toLong)
      if (i % every == 0) partition.ownSnapshot(next)
      next
    }

  FileNames.all.foreach { names =>
    test(
      s"format $names: a snapshot only brings the tables that are not there yet, and is enough to load from"
    ) {
      CheckpointPartition.use(names, RocksDB) { partition =>
        val open = grow(partition, partition.loader.load(StateVersion.Empty), 2, every = 2)
        val first = partition.tableNames
        assert(first.nonEmpty && first.forall(_.startsWith("2-")))
        grow(partition, open, 4, every = 2).close()
        assert(first.toSet.subsetOf(partition.tableNames.toSet))
        (1 to 4).foreach(i =>
          partition.folder.delete(partition.file(StateFileKind.Delta, i.toLong, s"id-$i"))
        )
        val loaded = partition.load(4, "id-4")
        (1 to 4).foreach(i => assert(partition.read(loaded, i.toLong).contains(i.toLong)))
        assert(partition.timers(loaded) == 4)
        // What was loaded goes on: its tables are known, its timers are where they were.
        val known = partition.tableNames.toSet
        val next = grow(partition, loaded, 6, every = 6)
        assert(next.tables.values.map(_.shared).exists(known))
        next.close()
        val again = partition.load(6, "id-6")
        assert(partition.timers(again) == 6 && partition.read(again, 5L).contains(5L))
        again.close()
      }
    }

    test(s"format $names: clean-up keeps every table that a retained version needs, and no other") {
      CheckpointPartition.use(names, RocksDB) { partition =>
        var open = grow(partition, partition.loader.load(StateVersion.Empty), 4, every = 2)
        // A crash between tables and manifest left this.
        Files.write(partition.local.resolve("tables/3-00.sst"), Array[Byte](1))
        Files.write(partition.local.resolve("tables/99-00.sst"), Array[Byte](1))
        open = grow(partition, open, 12, every = 2)
        partition.cleanUp(open, oldest = 9)
        assert(partition.folder.list().map(_.version).min == 8)
        val names = partition.tableNames
        assert(!names.contains("3-00.sst") && names.contains("99-00.sst"))
        (9 to 12).foreach { i =>
          val loaded = partition.load(i.toLong, s"id-$i")
          assert(partition.timers(loaded) == i)
          loaded.close()
        }
        intercept[StateException](partition.load(7, "id-7"))
        open.close()
      }
    }

    test(
      s"format $names: clean-up deletes what crashes left half written, but for versions that are needed"
    ) {
      CheckpointPartition.use(names, RocksDB) { partition =>
        val left = for {
          (folder, names) <- Seq(
            "" -> Seq("%d_id.delta", "%d_id.database", "%d_id.snapshot"),
            "tables/" -> Seq("%d-00.sst")
          )
          name <- names
          version <- Seq(3, 7, 8, 11, 13)
          hidden = s".${name.format(version)}.${UUID.randomUUID}.tmp"
          file <- Seq(s"$folder$hidden", s"$folder.$hidden.crc")
        } yield version -> partition.local.resolve(file)
        var open = grow(partition, partition.loader.load(StateVersion.Empty), 2, every = 2)
        left.foreach { case (_, file) => Files.write(file, Array[Byte](1)) }
        open = grow(partition, open, 12, every = 2)
        partition.cleanUp(open, oldest = 9)
        left.foreach { case (version, file) => assert(Files.exists(file) == (version >= 8), file) }
        (9 to 12).foreach(i => partition.load(i.toLong, s"id-$i").close())
        open.close()
      }
    }

    test(s"format $names: a table that is damaged or missing is passed over with its snapshot, or named") {
      CheckpointPartition.use(names, RocksDB) { partition =>
        grow(partition, partition.loader.load(StateVersion.Empty), 3, every = 2).close()
        val table = partition.local.resolve("tables").resolve(partition.tableNames.head)
        val sound = Files.readAllBytes(table)
        val damages = Seq[() => Unit](() => partition.damage(table), () => Files.delete(table))
        damages.foreach { damage =>
          damage()
          val loaded = partition.load(3, "id-3")
          assert(partition.timers(loaded) == 3)
          loaded.close()
        }
        val delta = partition.file(StateFileKind.Delta, 1, "id-1")
        partition.folder.delete(delta)
        val missing = intercept[StateException](partition.load(3, "id-3"))
        assert(
          missing.condition == "STATE_FILE_MISSING" && missing.getMessage.contains(table.getFileName.toString)
        )
        Files.write(table, sound.updated(10, (sound(10) ^ 1).toByte))
        val damaged = intercept[StateException](partition.load(3, "id-3"))
        assert(
          damaged.condition == "STATE_FILE_CORRUPT" && damaged.getMessage.contains(table.getFileName.toString)
        )
      }
    }

    test(s"format $names: a manifest cut anywhere is passed over, or named") {
      CheckpointPartition.use(names, RocksDB) { partition =>
        grow(partition, partition.loader.load(StateVersion.Empty), 3, every = 2).close()
        val file = partition.file(StateFileKind.Database, 2, "id-2")
        val path = partition.local.resolve(file.name)
        val sound = Files.readAllBytes(path)
        Files.deleteIfExists(path.resolveSibling(s".${file.name}.crc"))
        val random = new Random(7)
        Seq.fill(5)(random.nextInt(sound.length)).prepended(0).foreach { length =>
          Files.write(path, sound.take(length))
          val loaded = partition.load(3, "id-3")
          assert(partition.timers(loaded) == 3)
          loaded.close()
        }
        partition.folder.delete(partition.file(StateFileKind.Delta, 1, "id-1"))
        assert(intercept[StateException](partition.load(3, "id-3")).getMessage.contains(file.name))
      }
    }

    random(
      s"format $names: random batches, crashes and backends: every retained version is what a model says",
      few = 1,
      many = 4
    ) { most =>
      (1 to most.value).foreach(seed =>
        CheckpointPartition.use(names, RocksDB)(new RandomRun(_, seed, 25).run())
      )
    }
  }

  FileNames.all.foreach { names =>
    test(s"many random batches, crashes and backends, format $names", Soak) {
      (100 to 130).foreach(seed => CheckpointPartition.use(names, RocksDB)(new RandomRun(_, seed, 60).run()))
    }
  }

  test("a thousand versions without a snapshot are read back one after the other") {
    CheckpointPartition.use(FileNames.Attempts, RocksDB) { partition =>
      val start = partition.loader.load(StateVersion.Empty)
      (1 to 1000).foldLeft(start)((open, i) => partition.commit(open, s"id-$i", i % 70L, i.toLong)).close()
      val began = System.nanoTime
      val loaded = partition.load(1000, "id-1000")
      info(s"in ${(System.nanoTime - began) / 1000000} ms")
      (931 to 1000).foreach(i => assert(partition.read(loaded, i % 70L).contains(i.toLong)))
      assert(loaded.deltas == 1000 && partition.timers(loaded) == 1000)
      loaded.close()
    }
  }

  test("the sizes of snapshot and deltas are known again after a restart, whatever keeps the state") {
    Seq(RocksDB, Heap).foreach { storage =>
      CheckpointPartition.use(FileNames.Ids, storage) { partition =>
        val two = grow(partition, partition.loader.load(StateVersion.Empty), 2, every = 2)
        val tables = two.tables.values.map(_.bytes).sum
        grow(partition, two, 5, every = 100).close()
        val deltas = (3 to 5).map(i => Files.size(partition.local.resolve(s"${i}_id-$i.delta"))).sum
        val loaded = partition.load(5, "id-5")
        assert(loaded.logBytes > 0 && loaded.logBytes < deltas && loaded.deltas == 3)
        assert(if (storage == RocksDB) loaded.snapshotBytes == tables else loaded.snapshotBytes > 0)
        loaded.close()
      }
    }
  }

  test("tables are links on one file system, and whole in the checkpoint whatever becomes of the database") {
    CheckpointPartition.use(FileNames.Ids, RocksDB) { partition =>
      val open = grow(partition, partition.loader.load(StateVersion.Empty), 2, every = 2)
      val table = partition.local.resolve("tables").resolve(partition.tableNames.head)
      val isLinked = Files.getFileStore(table) == Files.getFileStore(LocalFolders.root)
      def names = Files.getAttribute(table, "unix:nlink").asInstanceOf[Int]
      val content = Files.readAllBytes(table)
      assert(names == (if (isLinked) 2 else 1))
      open.close()
      assert(names == 1)
      val loaded = partition.load(2, "id-2")
      assert(names == (if (isLinked) 2 else 1))
      grow(partition, loaded, 6, every = 3).close()
      assert(names == 1 && java.util.Arrays.equals(content, Files.readAllBytes(table)))
    }
  }

  test("format 2: the snapshot of an attempt that lost does not take what the winner needs") {
    CheckpointPartition.use(FileNames.Ids, RocksDB) { partition =>
      val three = grow(partition, partition.loader.load(StateVersion.Empty), 3, every = 2)
      three.close()
      val loser = partition.commit(partition.load(3, "id-3"), "id-4-lost", 4L, -4L)
      partition.ownSnapshot(loser)
      loser.close()
      val winner = grow(partition, partition.load(3, "id-3"), 7, every = 100)
      partition.ownSnapshot(winner)
      // The newest snapshot before version 5 is the loser's.
      partition.cleanUp(winner, oldest = 5)
      winner.close()
      val loaded = partition.load(5, "id-5")
      assert(partition.read(loaded, 4L).contains(4L))
      loaded.close()
    }
  }

  Seq("heap" -> "heap", "heap" -> "rocksdb", "rocksdb" -> "heap", "rocksdb" -> "rocksdb").foreach {
    case (from, fromTimers) =>
      Seq(Heap, RocksDB, storageOf("rocksdb", "heap"), storageOf("heap", "rocksdb")).foreach { to =>
        test(
          s"what $from with timers on $fromTimers wrote opens with ${to.state}, timers on ${to.timers}"
        ) {
          CheckpointPartition.use(FileNames.Ids, storageOf(from, fromTimers)) { partition =>
            grow(partition, partition.loader.load(StateVersion.Empty), 5, every = 4).close()
            val loaded = partition.loaderOf(to).load(partition.named(5, "id-5"))
            (1 to 5).foreach(i => assert(partition.read(loaded, i.toLong).contains(i.toLong)))
            assert(partition.timers(loaded) == 5)
            val next = partition.commit(loaded, "id-6", 1L, 60L)
            partition.ownSnapshot(next)
            next.close()
            val back = partition.load(6, "id-6")
            assert(partition.read(back, 1L).contains(60L) && partition.timers(back) == 6)
            back.close()
          }
        }
      }
  }

  /** Keys come and go, versions are committed, snapshots taken or lost, state is dropped and loaded again. */
  private final class RandomRun(partition: CheckpointPartition, seed: Int, steps: Int) {
    private val random = new Random(seed)
    private val retained = 5L
    private val specs = Seq(RocksDB, RocksDB, RocksDB, Heap, storageOf("rocksdb", "heap"))
    private var model = Map.empty[Long, Long]
    private var due = Set.empty[(Long, Long)]
    private var history = Map(0L -> ((model, due)))
    private var open = partition.loader.load(StateVersion.Empty)

    def run(): Unit = {
      (1 to steps).foreach { _ =>
        batch()
        if (random.nextInt(3) == 0) snapshot()
        if (random.nextInt(6) == 0) crash()
        if (random.nextInt(8) == 0) check()
      }
      check()
      open.close()
    }

    private def batch(): Unit = {
      (0 until random.nextInt(40)).foreach { _ =>
        val key = random.nextInt(60).toLong
        val to = Option.when(random.nextInt(4) > 0)(random.nextLong())
        partition.update(open, key, to)
        model = to.fold(model - key)(to => model + (key -> to))
        val at = random.nextInt(30).toLong
        if (random.nextBoolean()) {
          open.state.timers.register(TimeDomain.EVENT_TIME, Namespace.Void, at)
          due += key -> at
        } else {
          open.state.timers.delete(TimeDomain.EVENT_TIME, Namespace.Void, at)
          due -= key -> at
        }
      }
      val version = open.version.number + 1
      open = partition.commit(open, s"id-$version")
      history += version -> ((model, due))
    }

    /** Sometimes only the tables get there, sometimes there is no clean-up. */
    private def snapshot(): Unit =
      if (random.nextInt(5) == 0 && open.tables.nonEmpty)
        partition.tables.add(
          partition.local.resolve("tables").resolve(partition.tableNames.head),
          open.version.number
        ): Unit
      else {
        partition.ownSnapshot(open)
        if (random.nextInt(3) > 0) partition.cleanUp(open, open.version.number - retained)
      }

    /** What was not committed is lost. */
    private def crash(): Unit = {
      partition.update(open, 1L, Some(-1L))
      val version = open.version.number
      open.close()
      open =
        partition.loaderOf(specs(random.nextInt(specs.size))).load(partition.named(version, s"id-$version"))
    }

    private def check(): Unit = {
      val newest = open.version.number
      (math.max(1L, newest - retained) to newest).foreach { version =>
        val spec = specs(random.nextInt(specs.size))
        val loaded = partition.loaderOf(spec).load(partition.named(version, s"id-$version"))
        val (values, timers) = history(version)
        (0L until 60L).foreach(key =>
          assert(partition.read(loaded, key) == values.get(key), s"seed $seed, $version")
        )
        assert(partition.timers(loaded) == timers.size, s"seed $seed, version $version")
        loaded.close()
      }
    }
  }
}
