package io.pillarbox.spark.checkpoint

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import io.pillarbox.spark.state.{CheckpointPartition, FileNames, VersionedState}
import org.apache.commons.io.FileUtils
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.apache.spark.sql.types.StructType
import org.scalatest.funsuite.AnyFunSuite

/** Under checkpoint format 1: whose files count, where several attempts wrote one version. */
class AttemptsSuite extends AnyFunSuite {

  private def id(run: Long, task: Long): String = Attempt(run, task).newId()

  private def withPartition(body: CheckpointPartition => Unit): Unit =
    CheckpointPartition.use(FileNames.Attempts, CheckpointPartition.Heap)(body)

  private def empty(partition: CheckpointPartition): VersionedState =
    partition.loader.load(StateVersion.Empty)

  private def valueOf(partition: CheckpointPartition, version: Long): Option[Long] =
    partition.read(partition.load(version, ""), 1L)

  test("ids are in the order of runs, then of tasks") {
    val ids = Seq(Some(id(1, 9)), Some(id(1, 10)), Some(id(2, 3)), Some(id(10, 0)))
    assert(scala.util.Random.shuffle(ids).sorted(Attempt.oldestFirst) == ids)
    assert(Attempt.of(java.util.UUID.randomUUID.toString).isEmpty)
    assert(Attempt.of(id(7, 12)).contains(Attempt(7, 12)))
  }

  test("an attempt that nobody waits for any more, however late it commits, changes nothing") {
    withPartition { partition =>
      val (zombie, retry) = (id(1, 4), id(1, 7))
      val first = partition.commit(empty(partition), retry, 1L, 7L)
      partition.commit(empty(partition), zombie, 1L, 4L)
      assert(valueOf(partition, 1).contains(7L))
      // The next version was made from the retry's: the zombie's comes once more, and changes nothing.
      partition.commit(first, id(1, 9), 2L, 9L)
      partition.commit(empty(partition), id(1, 5), 1L, 5L)
      val loaded = partition.load(2, "")
      assert(partition.read(loaded, 1L).contains(7L) && partition.read(loaded, 2L).contains(9L))
    }
  }

  test("what an executor of an earlier run writes does not count") {
    withPartition { partition =>
      partition.commit(empty(partition), id(2, 3), 1L, 23L)
      partition.commit(empty(partition), id(1, 400), 1L, 1400L)
      assert(valueOf(partition, 1).contains(23L))
    }
  }

  test("a micro-batch that is run again starts from what it started from before") {
    withPartition { partition =>
      val accepted = partition.commit(empty(partition), id(1, 1), 1L, 11L)
      partition.commit(empty(partition), id(1, 2), 1L, 12L)
      assert(valueOf(partition, 1).contains(12L))
      partition.commit(accepted, id(1, 3), 2L, 13L)
      assert(valueOf(partition, 1).contains(11L))
    }
  }

  test("what was written after a version that a query was taken back behind does not count") {
    withPartition { partition =>
      var open = empty(partition)
      (1 to 3).foreach(i => open = partition.commit(open, id(1, i.toLong), i.toLong, 10L + i))
      // Back to version 1: the next run writes the second again, and ends.
      partition.commit(partition.load(1, ""), id(2, 1), 2L, 22L)
      assert(valueOf(partition, 2).contains(11L))
      assert(partition.read(partition.load(2, ""), 2L).contains(22L))
    }
  }

  test("a snapshot is of the attempt that took it, whatever others wrote") {
    withPartition { partition =>
      val lost = partition.commit(empty(partition), id(1, 1), 1L, 99L)
      partition.snapshot(lost)
      partition.commit(empty(partition), id(1, 2), 1L, 2L)
      assert(valueOf(partition, 1).contains(2L))
    }
  }

  test("an attempt that ran in vain leaves files that clean-up deletes") {
    withPartition { partition =>
      var open = empty(partition)
      (1 to 8).foreach { i =>
        partition.commit(if (i == 1) empty(partition) else partition.load(i - 1L, ""), id(1, i * 2L), 9L, -1L)
        open = partition.commit(open, id(1, i * 2L + 1), i.toLong, i.toLong)
        if (i == 6) partition.snapshot(open)
      }
      partition.cleanUp(open, oldest = 7)
      val left = partition.folder.list()
      assert(left.map(_.version).min == 6 && left.count(_.version == 6) == 3)
      assert(partition.timers(partition.load(8, "")) == 8)
    }
  }

  test("clean-up has nothing to do where more versions are retained than are there") {
    withPartition { partition =>
      var open = empty(partition)
      (1 to 8).foreach { i =>
        partition.commit(if (i == 1) empty(partition) else partition.load(i - 1L, ""), id(1, i * 2L), 9L, -1L)
        open = partition.commit(open, id(1, i * 2L + 1), i.toLong, i.toLong)
        if (i == 3 || i == 6) partition.snapshot(open)
      }
      partition.cleanUp(open, oldest = 7)
      (1 to 5).foreach(oldest => partition.cleanUp(open, oldest.toLong))
      assert(partition.folder.list().map(_.version).toSet == Set(6L, 7L, 8L))
      assert(partition.timers(partition.load(8, "")) == 8)
    }
  }

  private def withLedgers(body: (HadoopPath, Configuration) => Unit): Unit = {
    val local = Files.createTempDirectory("operator")
    try body(new HadoopPath(local.toUri), new Configuration)
    finally FileUtils.deleteDirectory(local.toFile)
  }

  test("each run of a query has a greater number than those before") {
    withLedgers { (operator, conf) =>
      val runs = (1 to 12).map(i => new OperatorRegistry(operator, conf, s"run $i").run)
      assert(runs == (1 to 12))
      val metadata = new StateFolder(new HadoopPath(operator, "_pillarbox"), conf)
      assert(metadata.listNames() == Seq("12.run"))
      assert(metadata.readNamed("12.run", "A test")(in => new String(in.readAllBytes(), UTF_8)) == "run 12")
    }
  }

  private val noted =
    OperatorMetadata("row", "f", 2, 1, Map(OperatorMetadata.Keys -> StructType.fromDDL("a string, b string")))

  test("metadata is written, found, and written anew when more than the name has changed") {
    withLedgers { (operator, conf) =>
      assert(OperatorMetadata.find(operator, conf).isEmpty)
      noted.checkAndWrite(operator, conf, 0)(_ => fail("there is none"))
      assert(OperatorMetadata.find(operator, conf).contains(noted))
      val named = noted.copy(name = "g")
      assert(named.checkAndWrite(operator, conf, 3)(_ => false) == named)
      assert(OperatorMetadata.find(operator, conf).contains(noted))
      val renamed = named.copy(
        columns = Map(OperatorMetadata.Keys -> StructType.fromDDL("x string not null, y string comment 'y'"))
      )
      assert(renamed.checkAndWrite(operator, conf, 3)(_ => false) == renamed)
      assert(OperatorMetadata.find(operator, conf).contains(renamed))
    }
  }

  test("metadata says what was so in each version, also one behind which a query is taken back") {
    withLedgers { (operator, conf) =>
      val first = noted.copy(form = OperatorMetadata.AsyncIO, callScope = "s")
      first.checkAndWrite(operator, conf, 0)(_ => true)
      val fewer = first.copy(partitions = 1).checkAndWrite(operator, conf, 4)(_ => true)
      val more = first.copy(partitions = 5).checkAndWrite(operator, conf, 7)(_ => true)
      val found = OperatorMetadata.find(operator, conf).get
      assert(found == more && found.at(7) == more)
      assert(Seq(4L, 6L).forall(found.at(_) == fewer) && Seq(0L, 3L).forall(found.at(_) == first))
      assert(first.copy(partitions = 1).checkAndWrite(operator, conf, 5)(_ => false) == fewer)
      assert(OperatorMetadata.find(operator, conf).contains(fewer))
    }
  }

  test("metadata says which columns leave; more of them are refused unless nothing is stored") {
    withLedgers { (operator, conf) =>
      val schema = Map(OperatorMetadata.Input -> StructType.fromDDL("a int, b int"))
      def leaving(version: Long, columns: Int*) = noted.copy(
        form = OperatorMetadata.AsyncIO,
        columns = schema,
        leaving = Seq(OperatorMetadata.Leaving(version, columns))
      )
      def starts(version: Long, isEmpty: Boolean, columns: Int*) =
        leaving(version, columns: _*).checkAndWrite(operator, conf, version)(_ => isEmpty)
      starts(0, false, 0, 1)
      starts(5, false, 0)
      // The one before has left nothing.
      starts(5, false, 0, 1)
      starts(5, false, 0)
      assert(intercept[IllegalStateException](starts(6, false, 1)).getMessage.contains("CARRY_OVER_MISMATCH"))
      starts(9, true, 1)
      starts(9, true, 1)
      starts(10, false, 1)
      intercept[IllegalStateException](starts(10, false, 0, 1))
      // Taken back.
      starts(8, false, 0)
      starts(4, false, 0, 1)
      val found = OperatorMetadata.find(operator, conf).get
      assert(found.leaving == leaving(0, 0, 1).leaving && found.since == 0 && found.before.isEmpty)
    }
  }

  test(
    "a query that was killed while it wrote its metadata anew goes on, where rename does not replace a file"
  ) {
    withLedgers { (operator, local) =>
      OddFileSystem.install("held", local)
      val keeping = new HadoopPath(s"held:${operator.toUri.getPath}")
      noted.checkAndWrite(keeping, local, 0)(_ => true)
      new OperatorRegistry(keeping, local, "run").run
      val folder = java.nio.file.Paths.get(OperatorMetadata.folderIn(operator).toUri.getPath)
      // The new file was written, the old one deleted, and the new one not yet renamed.
      def unfinished() = folder.resolve(s".operator.json.${java.util.UUID.randomUUID}.TID0.tmp")
      java.nio.file.Files.write(unfinished(), "{".getBytes(UTF_8))
      java.nio.file.Files.move(folder.resolve("operator.json"), unfinished())
      assert(OperatorMetadata.find(keeping, local).contains(noted))
      val renamed =
        noted.copy(columns = Map(OperatorMetadata.Keys -> StructType.fromDDL("x string, b string")))
      renamed.checkAndWrite(keeping, local, 3)(_ => true)
      assert(OperatorMetadata.find(keeping, local).contains(renamed))
      assert(folder.toFile.list.toSet.filterNot(_.endsWith(".crc")) == Set("operator.json", "1.run"))
    }
  }

  test("metadata of another form, other keys, or the same ones in another order is refused") {
    withLedgers { (operator, conf) =>
      noted.checkAndWrite(operator, conf, 0)(_ => true)
      def refused(other: OperatorMetadata): String = {
        val error = intercept[IllegalStateException](other.checkAndWrite(operator, conf, 3)(_ => false))
        assert(error.getMessage.startsWith("[CHECKPOINT_MISMATCH]"))
        error.getMessage
      }
      def keys(ddl: String) = noted.copy(columns = Map(OperatorMetadata.Keys -> StructType.fromDDL(ddl)))
      assert(refused(noted.copy(form = "scan")).contains("with the form row, the query now has scan"))
      assert(refused(noted.copy(timeSorted = true)).contains("time_sorted false"))
      assert(refused(noted.copy(format = 2)).contains("checkpointFormatVersion 1"))
      assert(refused(noted.copy(partitions = 7)).contains("the number of partitions 2"))
      assert(refused(keys("a string, b int")).contains("keys of type STRING, STRING"))
      assert(refused(keys("b string, a string")).contains("by [a, b], the query now has [b, a]"))
      assert(refused(keys("b string, c string")).contains("by [a, b], the query now has [b, c]"))
      assert(OperatorMetadata.find(operator, conf).contains(noted))
    }
  }

  test("a query that was killed while it wrote its first metadata starts anew") {
    withLedgers { (operator, conf) =>
      val folder = java.nio.file.Paths.get(OperatorMetadata.folderIn(operator).toUri.getPath)
      java.nio.file.Files.createDirectories(folder)
      val unfinished = folder.resolve(s".operator.json.${java.util.UUID.randomUUID}.tmp")
      java.nio.file.Files.write(unfinished, "{".getBytes(UTF_8))
      assert(OperatorMetadata.find(operator, conf).isEmpty)
      assert(noted.checkAndWrite(operator, conf, 0)(_ => true) == noted)
      assert(OperatorMetadata.find(operator, conf).contains(noted))
    }
  }

  test("metadata of another version or of an unknown form is refused, and its unknown fields are not read") {
    withLedgers { (operator, conf) =>
      val metadata = new StateFolder(OperatorMetadata.folderIn(operator), conf)
      def written(text: String): Unit =
        metadata.writeNamed("operator.json")(_.write(text.getBytes(UTF_8))): Unit
      def refused(): String =
        intercept[IllegalStateException](OperatorMetadata.find(operator, conf)).getMessage
      noted.checkAndWrite(operator, conf, 0)(_ => true)
      val text = metadata.readNamed("operator.json", "A test")(in => new String(in.readAllBytes(), UTF_8))
      written(text.replaceFirst("\\{", "{\"more\":1,"))
      assert(OperatorMetadata.find(operator, conf).contains(noted))
      written(text.replace("\"version\":3", "\"version\":2"))
      assert(refused().contains("has format 2, and this version of Pillarbox reads 3"))
      written(text.replace("\"row\"", "\"column\""))
      assert(refused().startsWith("[CHECKPOINT_FORMAT]"))
      metadata.deleteNamed("operator.json")
      metadata.writeNamed("async_io.json")(_.write(text.getBytes(UTF_8)))
      assert(refused().contains("format before 3"))
    }
  }
}
