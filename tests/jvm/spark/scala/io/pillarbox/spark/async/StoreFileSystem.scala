package io.pillarbox.spark.async

import java.io.{ByteArrayOutputStream, IOException, OutputStream}
import java.net.URI

import io.pillarbox.files.LocalFilesInProcess
import org.apache.hadoop.fs.{FSDataOutputStream, Path}
import org.apache.hadoop.util.Progressable

/** The local file system under `store:`, where a file is there when it is closed, until there is no room. */
class StoreFileSystem extends LocalFilesInProcess.Raw {
  override def getUri: URI = URI.create("store:///")

  override def getScheme: String = "store"

  override def create(
      path: Path,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream = {
    val written = new ByteArrayOutputStream
    val out = new OutputStream {
      override def write(byte: Int): Unit = written.write(byte)
      override def close(): Unit = {
        if (StoreFileSystem.isFull) throw new IOException("No space left on device")
        val file = StoreFileSystem.super.create(
          path,
          overwrite,
          bufferSize,
          replication,
          blockSize,
          progress
        )
        try file.write(written.toByteArray)
        finally file.close()
      }
    }
    new FSDataOutputStream(out, null)
  }
}

object StoreFileSystem {
  @volatile var isFull = false
}
