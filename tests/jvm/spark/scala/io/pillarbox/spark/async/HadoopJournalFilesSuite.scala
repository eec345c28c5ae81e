package io.pillarbox.spark.async

import java.io._
import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import io.pillarbox.async.journal.JournalFiles
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.util.Progressable
import org.scalatest.funsuite.AnyFunSuite

/** When an answer in a journal is safe on a file system that isn't the local one. */
class HadoopJournalFilesSuite extends AnyFunSuite {
  private val answer = "an answer".getBytes(UTF_8)

  private def filesIn(folder: java.nio.file.Path, scheme: String): JournalFiles = {
    val conf = new Configuration
    conf.set(s"fs.$scheme.impl", classOf[HoldingFileSystem].getName)
    conf.setBoolean(s"fs.$scheme.impl.disable.cache", true)
    HadoopJournalFiles.in(new Path(s"$scheme://$folder"), conf)
  }

  /** Writes an answer, persists it, and returns what that said and what others can read before the end. */
  private def persisted(scheme: String): (Boolean, String) = {
    val folder = Files.createTempDirectory("journal")
    val out = filesIn(folder, scheme).create("segment")
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

  test("without hflush the interrupt of the task that closes a file doesn't cut it off") {
    val folder = Files.createTempDirectory("journal")
    val out = filesIn(folder, "closing").create("segment")
    out.write(answer, 0, answer.length)
    Thread.currentThread().interrupt()
    try out.close()
    finally assert(Thread.interrupted())
    assert(Files.readAllBytes(folder.resolve("segment")).sameElements(answer))
  }

  test("a file that its writer has left open and nobody can see the end of is closed first") {
    val folder = Files.createTempDirectory("journal")
    val files = filesIn(folder, "leased")
    Files.write(folder.resolve("segment"), answer)
    LeaseState.leftOpen = 2
    val in = files.open("segment")
    val found = new Array[Byte](answer.length)
    try assert(in.read(0, found, 0, found.length) == found.length && found.sameElements(answer))
    finally in.close()
    assert(LeaseState.leftOpen == 0)
    intercept[FileNotFoundException](files.open("none"))
  }
}

/** Of the file system `leased`. */
private object LeaseState {

  /** How often a file must be asked to be closed before it is. */
  @volatile var leftOpen = 0
}

/** Holds what is written back until it is flushed, which only the scheme `flushing` can, or closed. */
class HoldingFileSystem extends RawLocalFileSystem with LeaseRecoverable {
  private var name = "closing"

  override def initialize(uri: URI, conf: Configuration): Unit = {
    name = uri.getScheme
    super.initialize(uri, conf)
  }

  override def getUri: URI =
    URI.create(s"${if (name == null) "closing" else name}:///") // the parent's constructor asks

  override def open(file: Path, bufferSize: Int): FSDataInputStream =
    if (isFileClosed(file)) super.open(file, bufferSize)
    else throw new IOException(s"Cannot obtain block length for $file")

  override def recoverLease(file: Path): Boolean = {
    LeaseState.leftOpen -= 1
    isFileClosed(file)
  }

  override def isFileClosed(file: Path): Boolean = name != "leased" || LeaseState.leftOpen == 0

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

  /** As an upload, which an interrupt ends. */
  override def close(): Unit = {
    if (!canFlush && Thread.interrupted()) throw new InterruptedIOException
    hflush()
    out.close()
  }
}
