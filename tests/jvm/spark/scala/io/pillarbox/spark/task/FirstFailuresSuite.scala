package io.pillarbox.spark.task

import java.nio.file.Paths

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.scalatest.funsuite.AnyFunSuite

class FirstFailuresSuite extends AnyFunSuite {
  private val said = ArrayBuffer.empty[String]
  private val failures = new FirstFailures(text => said.append(text): Unit)

  private def taken(): Seq[String] = {
    val lines = said.toList
    said.clear()
    lines
  }

  private val golden = Paths.get("tests", "golden", "first_failures.json").toFile

  new ObjectMapper().readTree(golden).elements.asScala.foreach { c =>
    def of(field: String) = c.path(field).asText
    test(s"the text of a first failure: ${of("about")}") {
      val attempts = (c.path("attempt").asInt, c.path("attempts").asInt)
      val text = FirstFailures.text(
        of("operator"),
        of("kind"),
        attempts._1,
        attempts._2,
        of("row"),
        of("message"),
        of("trace")
      )
      assert(text == of("text"))
    }
  }

  test("the lines for calls without an answer are those of the golden file") {
    val cases = new ObjectMapper().readTree(Paths.get("tests", "golden", "long_calls.json").toFile)
    assert(cases.size > 0)
    cases.forEach { c =>
      def of(field: String) = c.path(field).asText
      val Seq(attempt, seconds, more) = Seq("attempt", "seconds", "more").map(c.path(_).asInt)
      val line = FirstFailures.longCalls(of("operator"), of("id"), attempt, of("row"), seconds.toLong, more)
      assert(line == of("line"))
    }
  }

  test("a kind is said once in a run of an operator, and again in the next run") {
    for (run <- Seq("1", "2"); operator <- Seq("a", "b"); kind <- Seq("E", "F"); text <- Seq("one", "two"))
      failures.first(run, operator, kind, s"$run $operator $kind $text")
    assert(
      taken() == (for (run <- 1 to 2; op <- Seq("a", "b"); kind <- Seq("E", "F")) yield s"$run $op $kind one")
    )
    failures.ended("1")
    assert(taken() == Nil)
    failures.first("1", "a", "E", "anew")
    assert(taken() == Seq("anew"))
  }

  test("the end of a run says what all tasks have counted, the most first") {
    failures.failed("3", "a", Seq("E" -> 1L, "F" -> 2L))
    failures.failed("3", "a", Seq("F" -> 3L))
    failures.failed("3", "b", Seq("E" -> 1L))
    failures.failed("4", "a", Seq("E" -> 7L))
    failures.ended("3")
    assert(taken() == Seq("a: 6 rows failed: 5 F, 1 E", "b: 1 row failed: 1 E"))
    failures.ended("3")
    assert(taken() == Nil)
  }
}
