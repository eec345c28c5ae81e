package io.pillarbox.spark.async

import java.io.{ByteArrayOutputStream, FilterOutputStream, OutputStream}
import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, Path, RawLocalFileSystem, StreamCapabilities, Syncable}
import org.apache.hadoop.util.Progressable
import org.scalatest.funsuite.AnyFunSuite

/** When an answer in a journal is safe on a file system that isn't the local one. */
class HadoopJournalFilesSuite extends AnyFunSuite {
  private val answer = "an answer".getBytes(UTF_8)

  /** Writes an answer, persists it, and returns what that said and what others can read before the end. */
  private def persisted(scheme: String): (Boolean, String) = {
    val folder = Files.createTempDirectory("journal")
    val conf = new Configuration
    conf.set(s"fs.$scheme.impl", classOf[HoldingFileSystem].getName)
    conf.setBoolean(s"fs.$scheme.impl.disable.cache", true)
    val out = HadoopJournalFiles.in(new Path(s"$scheme://$folder"), conf).create("segment")
    try {
      out.write(answer, 0, answer.length)
      val said = out.persist()
      (said, new String(Files.readAllBytes(folder.resolve("segment")), UTF_8))
    } finally {
      out.close()
      assert(Files.readAllBytes(folder.resolve("segment")).sameElements(answer))
    }
  }

  test("with hflush an answer can be read by others before its file is closed") {
    assert(persisted("flushing") == ((true, "an answer")))
  }

  test("without hflush it is said that the answer isn't safe before its file is closed") {
    assert(persisted("closing") == ((false, "")))
  }
}

/** Holds what is written back until it is flushed, which only the scheme `flushing` can, or closed. */
class HoldingFileSystem extends RawLocalFileSystem {
  private var name = "closing"

  override def initialize(uri: URI, conf: Configuration): Unit = {
    name = uri.getScheme
    super.initialize(uri, conf)
  }

  override def getUri: URI =
    URI.create(s"${if (name == null) "closing" else name}:///") // the parent's constructor asks

  override def create(
      file: Path,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream = {
    val out = Files.newOutputStream(pathToFile(file).toPath)
    new FSDataOutputStream(new HoldingStream(out, name == "flushing"), null)
  }
}

private final class HoldingStream(out: OutputStream, canFlush: Boolean)
    extends FilterOutputStream(out)
    with Syncable
    with StreamCapabilities {
  private val held = new ByteArrayOutputStream

  override def write(byte: Int): Unit = held.write(byte)
  override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = held.write(bytes, offset, length)
  override def flush(): Unit = ()
  override def hasCapability(capability: String): Boolean = canFlush && capability == "hflush"
  override def hsync(): Unit = hflush()

  override def hflush(): Unit = {
    held.writeTo(out)
    held.reset()
  }

  override def close(): Unit = {
    hflush()
    out.close()
  }
}
