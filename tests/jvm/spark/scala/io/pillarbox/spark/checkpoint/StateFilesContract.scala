package io.pillarbox.spark.checkpoint

import java.io.{FileNotFoundException, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path => LocalPath}

import org.apache.commons.io.FileUtils
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.{
  FileContextBasedCheckpointFileManager,
  FileSystemBasedCheckpointFileManager
}
import org.apache.spark.sql.internal.SQLConf
import org.scalatest.funsuite.AnyFunSuite

/** What holds for files of state whoever writes them. */
abstract class StateFilesContract extends AnyFunSuite {

  /** Nothing is in the folder, not even itself. */
  protected def make(folder: LocalPath): StateFiles

  /** Whether a file that is being written is seen under another name. */
  protected def showsUnfinished: Boolean = true

  private def withFiles(body: (StateFiles, LocalPath) => Unit): Unit = {
    val parent = Files.createTempDirectory("state-files")
    val folder = parent.resolve("with a space").resolve("state")
    try body(make(folder), folder)
    finally FileUtils.deleteDirectory(parent.toFile)
  }

  private def text(files: StateFiles, name: String): String = {
    val in = files.open(name)
    try new String(in.readAllBytes(), UTF_8)
    finally in.close()
  }

  private def put(files: StateFiles, name: String, content: String): Long =
    files.write(name)(_.write(content.getBytes(UTF_8)))

  test("a folder that is not there has no files, and is made by the first write") {
    withFiles { (files, _) =>
      assert(files.list() == Nil && !files.exists("a"))
      assert(put(files, "a", "one") == 3)
      assert(files.list().filterNot(_.startsWith(".")) == Seq("a") && files.exists("a"))
      assert(text(files, "a") == "one")
    }
  }

  test("folders are not listed") {
    withFiles { (files, folder) =>
      Files.createDirectories(folder.resolve("tables"))
      put(files, "a", "one")
      assert(files.list().filterNot(_.startsWith(".")) == Seq("a"))
    }
  }

  test("a new file whose content throws is not there") {
    withFiles { (files, _) =>
      intercept[IOException](files.write("a")(_ => throw new IOException("full")))
      assert(!files.exists("a") && files.list().flatMap(StateFiles.unfinished) == Nil)
    }
  }

  test("a second write of a name replaces the first") {
    withFiles { (files, _) =>
      put(files, "a", "one")
      assert(put(files, "a", "and two") == 7)
      assert(text(files, "a") == "and two")
    }
  }

  test("a write that fails half way leaves what was there, and nothing else") {
    withFiles { (files, _) =>
      put(files, "a", "one")
      Seq("a", "b").foreach { name =>
        val failure = intercept[IOException](files.write(name) { out =>
          out.write("half".getBytes(UTF_8))
          throw new IOException("no more")
        })
        assert(failure.getMessage == "no more")
      }
      assert(text(files, "a") == "one")
      assert(files.list().filterNot(_.endsWith(".crc")) == Seq("a"))
    }
  }

  test("a file that is being written tells by its name which file it will be, and can be deleted") {
    withFiles { (files, folder) =>
      Seq("12_0b1f-22.delta", "3-00.sst").foreach { name =>
        var during = Seq.empty[String]
        files.write(name) { out =>
          out.write("half".getBytes(UTF_8))
          out.flush()
          during = files.list()
        }
        assert(during.flatMap(StateFiles.unfinished) == (if (showsUnfinished) Seq(name) else Nil))
        files.delete(name)
        // As a process leaves it that dies then, with what Hadoop keeps beside it.
        during.foreach { left =>
          Files.write(folder.resolve(left), Array[Byte](1))
          Files.write(folder.resolve(s".$left.crc"), Array[Byte](1))
        }
        files.list().filter(StateFiles.unfinished(_).contains(name)).foreach(files.delete)
        assert(Files.list(folder).count() == 0)
      }
      // Spark names the attempt of a task that writes.
      val byTask = s".12.delta.${java.util.UUID.randomUUID}.TID17.tmp"
      Seq(byTask, s".$byTask.crc").foreach(left => assert(StateFiles.unfinished(left).contains("12.delta")))
      Seq("12.delta", ".12.delta.crc", ".12.delta.tmp", ".x.tmp.crc", "12.delta.tmp").foreach { other =>
        assert(StateFiles.unfinished(other).isEmpty, other)
      }
    }
  }

  test("a file that is not there can't be opened, and its deletion is no error") {
    withFiles { (files, _) =>
      assert(intercept[FileNotFoundException](files.open("a")).getMessage.contains("a"))
      files.delete("a")
      put(files, "a", "one")
      files.delete("a")
      assert(!files.exists("a") && files.list() == Nil)
    }
  }
}

class LocalStateFilesSuite extends StateFilesContract {
  override protected def make(folder: LocalPath): StateFiles =
    StateFiles.in(new Path(folder.toUri), new Configuration)

  test("a file that Spark's own manager wrote before is replaced so that it can read the new one") {
    val folder = Files.createTempDirectory("state-files")
    try {
      val local = make(folder)
      val managed = ManagedStateFilesSuite.make(folder)
      managed.write("a")(_.write("one".getBytes(UTF_8)))
      local.write("a")(_.write("two, and longer".getBytes(UTF_8)))
      val in = managed.open("a")
      try assert(new String(in.readAllBytes(), UTF_8) == "two, and longer")
      finally in.close()
    } finally FileUtils.deleteDirectory(folder.toFile)
  }

  test("it is for folders of the local file system, unless another manager was chosen") {
    val folder = new Path(Files.createTempDirectory("state-files").toUri)
    assert(StateFiles.in(folder, new Configuration).isInstanceOf[LocalStateFiles])
    val chosen = ManagedStateFilesSuite.configuration
    assert(StateFiles.in(folder, chosen).isInstanceOf[ManagedStateFiles])
    val other = new Configuration
    OddFileSystem.install("flaky", other)
    assert(StateFiles.in(new Path("flaky:///tmp/x"), other).isInstanceOf[ManagedStateFiles])
    val wrapped = new Configuration
    wrapped.set("fs.file.impl", classOf[OddFileSystem].getName)
    assert(StateFiles.in(folder, wrapped).isInstanceOf[ManagedStateFiles])
  }
}

class ObjectStateFilesSuite extends StateFilesContract {
  override protected def showsUnfinished: Boolean = false

  override protected def make(folder: LocalPath): StateFiles = {
    val conf = new Configuration
    OddFileSystem.install("abortable", conf)
    StateFiles.in(new Path("abortable", "", folder.toString), conf)
  }

  test("it is for stores whose streams can be ended, unless another manager was chosen") {
    val folder = Files.createTempDirectory("state-files")
    assert(make(folder).isInstanceOf[ObjectStateFiles])
    val chosen = ManagedStateFilesSuite.configuration
    OddFileSystem.install("abortable", chosen)
    val managed = StateFiles.in(new Path("abortable", "", folder.toString), chosen)
    assert(managed.isInstanceOf[ManagedStateFiles])
  }

  test("nothing is seen of a file before it is whole, and another is read until then") {
    val folder = Files.createTempDirectory("state-files")
    try {
      val files = make(folder)
      files.write("a")(_.write("one".getBytes(UTF_8)))
      files.write("a") { out =>
        out.write("and two".getBytes(UTF_8))
        out.flush()
        assert(Files.readString(folder.resolve("a")) == "one" && files.list() == Seq("a"))
      }
      assert(Files.readString(folder.resolve("a")) == "and two")
    } finally FileUtils.deleteDirectory(folder.toFile)
  }
}

/** Whose `create` makes no folders. */
class ContextStateFilesSuite extends StateFilesContract {
  override protected def make(folder: LocalPath): StateFiles =
    StateFiles.in(
      new Path(folder.toUri),
      ManagedStateFilesSuite.choosing(classOf[FileContextBasedCheckpointFileManager])
    )
}

class ManagedStateFilesSuite extends StateFilesContract {
  override protected def make(folder: LocalPath): StateFiles = ManagedStateFilesSuite.make(folder)
}

object ManagedStateFilesSuite {
  def configuration: Configuration = choosing(classOf[FileSystemBasedCheckpointFileManager])

  def choosing(manager: Class[_]): Configuration = {
    val conf = new Configuration
    conf.set(SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key, manager.getName)
    conf
  }

  def make(folder: LocalPath): StateFiles = StateFiles.in(new Path(folder.toUri), configuration)
}
