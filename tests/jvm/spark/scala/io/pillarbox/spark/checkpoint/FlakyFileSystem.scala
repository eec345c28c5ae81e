package io.pillarbox.spark.checkpoint

import java.io.IOException
import java.net.URI
import java.util.concurrent.atomic.AtomicInteger

import scala.util.Random

import io.pillarbox.files.LocalFilesInProcess
import org.apache.hadoop.fs.{FSDataInputStream, FSDataOutputStream, FileStatus, Path}
import org.apache.hadoop.util.Progressable

/**
 * The local file system under `flaky:`, whose create, rename and list fail at random in the folders of state,
 * and where `failing` says so, open too.
 */
class FlakyFileSystem extends LocalFilesInProcess.Raw {
  override def getUri: URI = URI.create("flaky:///")

  override def getScheme: String = "flaky"

  override def create(
      path: Path,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream = {
    FlakyFileSystem.perhapsFail("create", path)
    super.create(path, overwrite, bufferSize, replication, blockSize, progress)
  }

  override def open(path: Path, bufferSize: Int): FSDataInputStream = {
    if (FlakyFileSystem.failing(path)) throw FlakyFileSystem.failure("open", path)
    super.open(path, bufferSize)
  }

  override def rename(from: Path, to: Path): Boolean = {
    FlakyFileSystem.perhapsFail("rename", to)
    val done = super.rename(from, to)
    // As bad: it was done, and nobody is told.
    FlakyFileSystem.perhapsFail("rename after the fact", to)
    done
  }

  override def listStatus(path: Path): Array[FileStatus] = {
    FlakyFileSystem.listed(path)
    FlakyFileSystem.perhapsFail("list", path)
    super.listStatus(path)
  }
}

object FlakyFileSystem {
  private val random = new Random(3)
  val failures = new AtomicInteger

  /** Of 100 operations, so many fail. */
  @volatile var percent = 0

  /** Paths whose operations all fail. */
  @volatile var failing: Path => Boolean = _ => false

  /** Makes what is thrown from a text. */
  @volatile var error: String => IOException = new IOException(_)

  /** Told of each folder that is listed. */
  @volatile var listed: Path => Unit = _ => ()

  private def perhapsFail(what: String, path: Path): Unit =
    if (failing(path) || path.toString.contains("/state/") && synchronized(random.nextInt(100)) < percent)
      throw failure(what, path)

  private def failure(what: String, path: Path): IOException = {
    failures.incrementAndGet()
    error(s"flaky $what of $path")
  }
}
