package io.pillarbox.spark.async

import java.io.{EOFException, FileNotFoundException, IOException}
import java.nio.file.Paths
import java.util.concurrent.{CompletableFuture, CompletionException, TimeUnit}

import io.pillarbox.metered.journal._
import io.pillarbox.spark.checkpoint.StateFiles
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._

/**
 * A journal's folder on any file system of Hadoop's. What was written is safe at once where streams have
 * `hflush` (HDFS), else when its file is closed (object stores).
 */
private[spark] final class HadoopJournalFiles(folder: Path, conf: Configuration) extends JournalFiles {
  import HadoopJournalFiles._

  private lazy val fs: FileSystem = folder.getFileSystem(conf) match {
    // A checksummed stream holds its last bytes back, and records have checksums of their own.
    case checked: ChecksumFileSystem => checked.getRawFileSystem
    case other => other
  }

  override def list(): Seq[JournalFile] =
    try
      fs.listStatus(folder)
        .toSeq
        .filter(_.isFile)
        .map(file => JournalFile(file.getPath.getName, file.getLen, file.getModificationTime))
    catch { case _: FileNotFoundException => Nil }

  override def open(name: String): JournalInput = new JournalInput {
    private val in = opened(new Path(folder, name))

    override def read(position: Long, into: Array[Byte], offset: Int, length: Int): Int =
      try in.read(position, into, offset, length)
      catch { case _: EOFException => -1 }

    override def close(): Unit = in.close()
  }

  /**
   * Opens a file. The end of one that its writer has left open may not be told for a while, since a data node
   * was started anew (HDFS). If that is so twice, the file is closed first; a writer that is still there goes on
   * in another one.
   */
  private def opened(path: Path): FSDataInputStream =
    try fs.open(path)
    catch { case problem: IOException if hasNoEnd(problem) => openedAgain(path) }

  private def openedAgain(path: Path): FSDataInputStream =
    try fs.open(path)
    catch {
      case problem: IOException if hasNoEnd(problem) =>
        fs match {
          case leased: LeaseRecoverable => recovered(leased, path, problem)
          case _ => throw problem
        }
    }

  private def recovered(leased: LeaseRecoverable, path: Path, problem: IOException): FSDataInputStream =
    try if (isClosed(leased, path)) fs.open(path) else throw problem
    catch {
      case other: IOException if other ne problem =>
        other.addSuppressed(problem)
        throw other
    }

  private def isClosed(fs: LeaseRecoverable, path: Path): Boolean = {
    val end = System.nanoTime() + RecoveryNanos
    var closed = fs.recoverLease(path)
    while (!closed && System.nanoTime() < end) {
      Thread.sleep(RecoveryPollMs)
      closed = fs.isFileClosed(path)
    }
    closed
  }

  override def create(name: String): JournalOutput = new JournalOutput {
    private val out = fs.create(new Path(folder, name), false)
    private val persists = out.hasCapability("hflush")

    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = out.write(bytes, offset, length)

    override def persist(): Boolean = {
      if (persists) out.hflush()
      persists
    }

    override def sync(): Unit = if (out.hasCapability("hsync")) out.hsync()

    override def close(): Unit = if (persists) out.close() else uninterrupted(out.close())
  }

  /** Runs it on another thread: the interrupt of one task may not cut off what many have written. */
  private def uninterrupted(body: => Unit): Unit = {
    val done = CompletableFuture.runAsync(() => body, new Thread(_, "pillarbox-journal").start())
    try done.join()
    catch { case failed: CompletionException => throw failed.getCause }
  }

  override def exists(name: String): Boolean = fs.exists(new Path(folder, name))

  override def rename(from: String, to: String): Unit = {
    val (source, target) = (new Path(folder, from), new Path(folder, to))
    if (!exists(from) || !fs.rename(source, target)) {
      if (exists(from)) throw new IOException(s"$source can't be renamed to $target")
      throw new FileNotFoundException(source.toString)
    }
  }

  override def delete(name: String): Unit = fs.delete(new Path(folder, name), false): Unit
}

private[spark] object HadoopJournalFiles {
  private val RecoveryNanos = TimeUnit.MINUTES.toNanos(1)
  private final val RecoveryPollMs = 500L

  /** True for what HDFS's client says of a file whose last block no data node tells the length of. */
  private def hasNoEnd(problem: IOException): Boolean =
    problem.getClass.getSimpleName == "CannotObtainBlockLengthException" ||
      String.valueOf(problem.getMessage).contains("last block locations")

  /** Uses the local file system directly where the folder is on it. */
  def in(folder: Path, conf: Configuration): JournalFiles =
    if (StateFiles.isPlainLocal(folder, conf)) new LocalJournalFiles(Paths.get(folder.toUri))
    else new HadoopJournalFiles(folder, conf)
}
