package io.pillarbox.spark.async

import java.io.{FileNotFoundException, IOException, InterruptedIOException}
import java.nio.channels.ClosedByInterruptException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import io.pillarbox.metered.journal.JournalFiles
import io.pillarbox.spark.checkpoint.{LeasedFiles, OddFileSystem}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.hdfs.CannotObtainBlockLengthException
import org.scalatest.funsuite.AnyFunSuite

/** When an answer in a journal is safe on a file system that isn't the local one. */
class HadoopJournalFilesSuite extends AnyFunSuite {
  private val answer = "an answer".getBytes(UTF_8)

  private def filesIn(folder: java.nio.file.Path, scheme: String): JournalFiles = {
    val conf = new Configuration
    OddFileSystem.install(scheme, conf)
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
    LeasedFiles.leaveOpen(polls = 2, new CannotObtainBlockLengthException("segment"))
    val in = files.open("segment")
    val found = new Array[Byte](answer.length)
    try assert(in.read(0, found, 0, found.length) == found.length && found.sameElements(answer))
    finally in.close()
    assert(LeasedFiles.leftOpen == 0 && LeasedFiles.recoveries == 1)
    intercept[FileNotFoundException](files.open("none"))
  }

  test("a file whose end is told when it is opened again is left to its writer, as after any other failure") {
    val folder = Files.createTempDirectory("journal")
    val files = filesIn(folder, "leased")
    Files.write(folder.resolve("segment"), answer)
    LeasedFiles.leaveOpen(polls = 1, new IOException("Could not obtain the last block locations."))
    LeasedFiles.failures = 1
    files.open("segment").close()
    for (
      problem <- Seq(new InterruptedIOException, new ClosedByInterruptException, new IOException("timeout"))
    ) {
      LeasedFiles.leaveOpen(polls = 1, problem)
      assert(intercept[IOException](files.open("segment")) eq problem)
    }
    assert(LeasedFiles.recoveries == 0)
  }
}
