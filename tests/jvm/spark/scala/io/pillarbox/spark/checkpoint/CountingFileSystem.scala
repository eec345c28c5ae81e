package io.pillarbox.spark.checkpoint

import java.net.URI
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import io.pillarbox.files.LocalFilesInProcess
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs.{FSDataInputStream, FSDataOutputStream, FileStatus, Path}
import org.apache.hadoop.util.Progressable

/**
 * The local file system under `counting:`, which counts the operations in the folders of state, each of which
 * takes as long as `delayMs` says: a file system that is far away.
 */
class CountingFileSystem extends LocalFilesInProcess.Raw {
  import CountingFileSystem.counted

  override def getUri: URI = URI.create("counting:///")

  override def getScheme: String = "counting"

  override def create(
      path: Path,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream = counted("create", path)(
    super.create(path, overwrite, bufferSize, replication, blockSize, progress)
  )

  override def open(path: Path, bufferSize: Int): FSDataInputStream =
    counted("open", path)(super.open(path, bufferSize))

  override def rename(from: Path, to: Path): Boolean = counted("rename", to)(super.rename(from, to))

  override def delete(path: Path, recursive: Boolean): Boolean =
    counted("delete", path)(super.delete(path, recursive))

  override def listStatus(path: Path): Array[FileStatus] = counted("list", path)(super.listStatus(path))

  override def mkdirs(path: Path): Boolean = counted("mkdirs", path)(super.mkdirs(path))

  override def mkdirs(path: Path, permission: FsPermission): Boolean =
    counted("mkdirs", path)(super.mkdirs(path, permission))

  override def exists(path: Path): Boolean = counted("exists", path)(super.exists(path))

  override def getFileStatus(path: Path): FileStatus = counted("status", path)(super.getFileStatus(path))
}

object CountingFileSystem {
  private val counts = new ConcurrentHashMap[String, AtomicInteger]
  private val isInside = ThreadLocal.withInitial[Boolean](() => false)

  /** The milliseconds that each operation takes. */
  @volatile var delayMs = 0L

  /** The operations since the last time, by their kinds. */
  def take(): Map[String, Int] = {
    val found = counts.asScala.map { case (kind, count) => kind -> count.getAndSet(0) }
    found.filter(_._2 > 0).toMap
  }

  /** The local file system asks itself to do one operation by others, which don't count. */
  private def counted[A](kind: String, path: Path)(body: => A): A =
    if (isInside.get || !path.toString.contains("/state/")) body
    else {
      counts.computeIfAbsent(kind, _ => new AtomicInteger).incrementAndGet()
      if (delayMs > 0) Thread.sleep(delayMs)
      isInside.set(true)
      try body
      finally isInside.set(false)
    }
}
