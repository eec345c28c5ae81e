package io.pillarbox.spark.checkpoint

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, IOException}
import java.nio.file.Files

import scala.util.Random

import io.pillarbox.spark.state.{CheckpointPartition, FileNames}
import io.pillarbox.state.StateException
import org.apache.commons.io.FileUtils
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.hdfs.BlockMissingException
import org.scalatest.funsuite.AnyFunSuite

/** Files of state without Spark around them: formats, histories, damage. */
class StateFilesSuite extends AnyFunSuite {
  private def write(state: String, timers: String): Array[Byte] = {
    val out = new ByteArrayOutputStream
    StateFileFormat.write(out, StateFileFormat.Header("id-1", Some("id-0")))(_.write(state.getBytes))(
      _.write(timers.getBytes)
    )
    out.toByteArray
  }

  private def read(bytes: Array[Byte]): (StateFileFormat.Header, String, String) = {
    var (state, timers) = ("", "")
    val header = StateFileFormat.read(new ByteArrayInputStream(bytes), "the file")(in =>
      state = new String(in.readAllBytes())
    )(in => timers = new String(in.readAllBytes()))
    (header, state, timers)
  }

  test("a file gives back its header and both parts, also empty ones and ones of many chunks") {
    val long = "x" * 300000
    Seq(("", ""), ("state", "timers"), (long, ""), ("", long)).foreach { case (state, timers) =>
      assert(read(write(state, timers)) == ((StateFileFormat.Header("id-1", Some("id-0")), state, timers)))
    }
  }

  test("a file that is cut anywhere, or has any byte changed, is refused with its name") {
    val bytes = write("some state", "some timers")
    bytes.indices.foreach { i =>
      val cut = intercept[StateException](read(bytes.take(i)))
      assert(cut.getMessage.contains("the file"))
      val changed = bytes.clone()
      changed(i) = (changed(i) ^ 0x10).toByte
      intercept[StateException](read(changed))
    }
  }

  test("a file that clean-up deletes after it was listed is missing by its name, however it is read") {
    CheckpointPartition.use(FileNames.Attempts, CheckpointPartition.Heap) { partition =>
      val folder = partition.folder
      val gone = StateFile(StateFileKind.Delta, 7, Some("0b1f-22"))
      val readers = Seq[() => Any](
        () => folder.read(gone)(_.read()),
        () => folder.open(gone),
        () => new StateHistory(folder).header(StateVersion(7, gone.id)),
        () => new StateHistory(folder).pathTo(StateVersion(7, gone.id))
      )
      readers.foreach { read =>
        val missing = intercept[StateException](read())
        assert(missing.condition == "STATE_FILE_MISSING" && missing.getMessage.contains(gone.name))
      }
    }
  }

  test("names of files are read back; those of others are not ours") {
    val files = Seq(StateFileKind.Delta, StateFileKind.Snapshot).map(StateFile(_, 12, Some("0b1f-22")))
    files.foreach(file => assert(StateFile.parse(file.name).contains(file)))
    Seq("12.tmp", "12.delta", ".12_a.delta.crc", "x.delta", "_metadata").foreach(name =>
      assert(StateFile.parse(name).isEmpty)
    )
  }

  private def withPartition(names: FileNames)(body: CheckpointPartition => Unit): Unit =
    CheckpointPartition.use(names, CheckpointPartition.Heap)(body)

  FileNames.all.foreach { names =>
    test(s"format $names: any version loads from the newest snapshot before it and the deltas after") {
      withPartition(names) { partition =>
        var open = partition.loader.load(StateVersion.Empty)
        (1 to 9).foreach { i =>
          open = partition.commit(open, s"id-$i", i % 3L, i.toLong)
          if (i % 4 == 0) partition.snapshot(open)
        }
        (1 to 9).foreach { i =>
          val loaded = partition.load(i.toLong, s"id-$i")
          (0 to 2).foreach(key =>
            assert(partition.read(loaded, key.toLong) == (1 to i).findLast(_ % 3 == key).map(_.toLong))
          )
          assert(partition.timers(loaded) == i && loaded.deltas == i % 4)
        }
      }
    }

    test(s"format $names: a damaged snapshot is passed over, a damaged delta is an error that names it") {
      withPartition(names) { partition =>
        var open = partition.loader.load(StateVersion.Empty)
        (1 to 3).foreach { i =>
          open = partition.commit(open, s"id-$i", 1L, i.toLong)
          if (i == 2) partition.snapshot(open)
        }
        val snapshot = partition.file(StateFileKind.Snapshot, 2, "id-2")
        partition.damage(snapshot)
        assert(partition.read(partition.load(3, "id-3"), 1L).contains(3L))
        val delta = partition.file(StateFileKind.Delta, 1, "id-1")
        partition.damage(delta)
        assert(intercept[StateException](partition.load(3, "id-3")).getMessage.contains(delta.name))
        // Without what the snapshot was made from, its own damage is what to tell.
        partition.folder.delete(delta)
        val damage = intercept[StateException](partition.load(3, "id-3"))
        assert(damage.getMessage.contains(".snapshot is damaged"))
        assert(damage.getSuppressed.exists(_.getMessage.contains(delta.name)))
      }
    }

    test(s"format $names: a snapshot that can't be read now is no damage") {
      val local = Files.createTempDirectory("state-files")
      val partition = new CheckpointPartition(local, names, CheckpointPartition.Heap, scheme = "flaky")
      try {
        val open = partition.commit(partition.loader.load(StateVersion.Empty), "id-1", 1L, 1L)
        partition.snapshot(open)
        FlakyFiles.failing = _.getName.endsWith(".snapshot")
        assert(intercept[IOException](partition.load(1, "id-1")).getMessage.startsWith("flaky open"))
        FlakyFiles.failing = _ => false
        assert(partition.read(partition.load(1, "id-1"), 1L).contains(1L))
      } finally {
        FlakyFiles.failing = _ => false
        FileUtils.deleteDirectory(local.toFile)
      }
    }

    test(s"format $names: a snapshot that HDFS has lost is passed over") {
      val local = Files.createTempDirectory("state-files")
      val partition = new CheckpointPartition(local, names, CheckpointPartition.Heap, scheme = "flaky")
      try {
        var open = partition.loader.load(StateVersion.Empty)
        (1 to 2).foreach(i => open = partition.commit(open, s"id-$i", 1L, i.toLong))
        partition.snapshot(open)
        FlakyFiles.error = new BlockMissingException("the client", _, 0)
        FlakyFiles.failing = _.getName.endsWith(".snapshot")
        assert(partition.read(partition.load(2, "id-2"), 1L).contains(2L))
      } finally {
        FlakyFiles.failing = _ => false
        FlakyFiles.error = new IOException(_)
        FileUtils.deleteDirectory(local.toFile)
      }
    }

    test(s"format $names: clean-up keeps all that retained versions need") {
      withPartition(names) { partition =>
        var open = partition.loader.load(StateVersion.Empty)
        (1 to 10).foreach { i =>
          open = partition.commit(open, s"id-$i", i.toLong, i.toLong)
          if (i % 3 == 0) partition.snapshot(open)
        }
        partition.cleanUp(open, oldest = 8)
        assert(partition.folder.list().map(_.version).min == 6)
        (8 to 10).foreach { i =>
          assert(partition.timers(partition.load(i.toLong, s"id-$i")) == i)
        }
        intercept[StateException](partition.load(5, "id-5"))
      }
    }
  }

  test("format 2: attempts that wrote the same version never mix") {
    withPartition(FileNames.Ids) { partition =>
      val random = new Random(1)
      // A tree of attempts: every version has two, each built on a random one of the version before.
      val values = scala.collection.mutable.Map("id-0" -> Map.empty[Long, Long])
      var before = Seq("id-0")
      (1 to 6).foreach { version =>
        before = Seq("a", "b").map { attempt =>
          val base = before(random.nextInt(before.size))
          val id = s"id-$version$attempt"
          val open =
            if (version == 1) partition.loader.load(StateVersion.Empty)
            else partition.load(version - 1L, base)
          partition.commit(open, id, version % 2L, id.hashCode.toLong)
          values(id) = values(base) + (version % 2L -> id.hashCode.toLong)
          id
        }
        before.foreach { id =>
          val loaded = partition.load(version.toLong, id)
          Seq(0L, 1L).foreach(key => assert(partition.read(loaded, key) == values(id).get(key)))
        }
      }
    }
  }

  test(
    "format 1: the file of a later attempt takes the place of an earlier one's, also where rename refuses to"
  ) {
    val local = Files.createTempDirectory("state-files")
    try {
      val conf = new Configuration
      OddFileSystem.install("held", conf)
      val folder = new StateFolder(new Path(s"held:$local"), conf)
      val file = StateFile(StateFileKind.Delta, 1, Some("a"))
      Seq("cut sh", "later", "last").foreach(content => folder.write(file)(_.write(content.getBytes)))
      assert(folder.read(file)(in => new String(in.readAllBytes())) == "last")
      assert(folder.listNames() == Seq("1_a.delta"))
    } finally FileUtils.deleteDirectory(local.toFile)
  }

  test("a delta that was made from another attempt's state than the one that is there is refused") {
    withPartition(FileNames.Ids) { partition =>
      val first = partition.commit(partition.loader.load(StateVersion.Empty), "id-1", 1L, 1L)
      partition.commit(partition.loader.load(StateVersion.Empty), "id-1-other", 1L, 99L)
      partition.commit(first, "id-2", 2L, 2L)
      assert(partition.read(partition.load(2, "id-2"), 1L).contains(1L))
      partition.folder.delete(partition.file(StateFileKind.Delta, 1, "id-1"))
      val error = intercept[StateException](partition.load(2, "id-2"))
      assert(error.condition == "STATE_FILE_REPLACED")
      assert(error.getMessage.contains("2_id-2.delta") && error.getMessage.contains("attempt id-1 of a task"))
      assert(error.getMessage.contains("attempt id-1-other"))
    }
  }
}
