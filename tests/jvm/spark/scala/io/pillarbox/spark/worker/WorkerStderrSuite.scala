package io.pillarbox.spark.worker

import java.nio.file.Files

import org.scalatest.funsuite.AnyFunSuite

class WorkerStderrSuite extends AnyFunSuite {

  test("a short file is shown whole, without white space around it") {
    assert(tailOf("\nlast words\n") == "last words")
  }

  test("of a long file only the end is shown") {
    val text = "x" * 10000 + "the end"
    assert(tailOf(text) == text.takeRight(WorkerStderr.TailBytes))
  }

  private def tailOf(content: String): String = {
    val file = Files.createTempFile("stderr", "")
    try {
      Files.writeString(file, content)
      WorkerStderr.tailOf(file)
    } finally Files.delete(file)
  }
}
