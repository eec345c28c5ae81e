package io.pillarbox.spark.checkpoint

import java.io.{ByteArrayOutputStream, IOException}
import java.net.URI

import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/** The local file system under `abortable:`, as S3A is: a file is there when its stream is closed. */
class AbortableFileSystem extends RawLocalFileSystem {
  override def getUri: URI = URI.create("abortable:///")

  override def getScheme: String = "abortable"

  override def hasPathCapability(path: Path, capability: String): Boolean =
    capability == CommonPathCapabilities.ABORTABLE_STREAM || super.hasPathCapability(path, capability)

  override def rename(from: Path, to: Path): Boolean = throw new IOException("a copy of the whole file")

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream = {
    val put = () => super.create(path, permission, true, bufferSize, replication, blockSize, progress)
    new FSDataOutputStream(new AbortableStream(put), null)
  }

  private final class AbortableStream(put: () => FSDataOutputStream)
      extends ByteArrayOutputStream
      with Abortable {
    override def close(): Unit = {
      val file = put()
      try file.write(toByteArray)
      finally file.close()
    }

    override def abort(): Abortable.AbortableResult = new Abortable.AbortableResult {
      override def alreadyClosed(): Boolean = false
      override def anyCleanupException(): IOException = null
    }
  }
}
