package io.pillarbox.spark.async

import java.io._
import java.net.URI
import java.nio.channels.ClosedByInterruptException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import io.pillarbox.metered.journal.JournalFiles
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.hdfs.CannotObtainBlockLengthException
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
    LeaseState.leaveOpen(polls = 2, new CannotObtainBlockLengthException("segment"))
    val in = files.open("segment")
    val found = new Array[Byte](answer.length)
    try assert(in.read(0, found, 0, found.length) == found.length && found.sameElements(answer))
    finally in.close()
    assert(LeaseState.leftOpen == 0 && LeaseState.recoveries == 1)
    intercept[FileNotFoundException](files.open("none"))
  }

  test("a file whose end is told when it is opened again is left to its writer, as after any other failure") {
    val folder = Files.createTempDirectory("journal")
    val files = filesIn(folder, "leased")
    Files.write(folder.resolve("segment"), answer)
    LeaseState.leaveOpen(polls = 1, new IOException("Could not obtain the last block locations."))
    LeaseState.failures = 1
    files.open("segment").close()
    for (
      problem <- Seq(new InterruptedIOException, new ClosedByInterruptException, new IOException("timeout"))
    ) {
      LeaseState.leaveOpen(polls = 1, problem)
      assert(intercept[IOException](files.open("segment")) eq problem)
    }
    assert(LeaseState.recoveries == 0)
  }
}

/** Of the file system `leased`. */
private object LeaseState {

  /** How often it must be asked whether a file is closed before it is. */
  @volatile var leftOpen = 0

  /** How often files were asked to be closed. */
  @volatile var recoveries = 0

  /** How often a file that is not closed can't be opened. */
  @volatile var failures = 0
  @volatile var problem = new IOException

  def leaveOpen(polls: Int, reason: IOException): Unit = {
    leftOpen = polls
    recoveries = 0
    failures = Int.MaxValue
    problem = reason
  }
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
    if (name != "leased" || LeaseState.leftOpen == 0 || LeaseState.failures == 0) super.open(file, bufferSize)
    else {
      LeaseState.failures -= 1
      throw LeaseState.problem
    }

  override def recoverLease(file: Path): Boolean = {
    LeaseState.recoveries += 1
    false
  }

  override def isFileClosed(file: Path): Boolean = {
    LeaseState.leftOpen -= 1
    LeaseState.leftOpen <= 0
  }

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
