package io.pillarbox.spark.base

import java.nio.file.Paths

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import io.pillarbox.spark.LocalSpark
import org.scalatest.funsuite.AnyFunSuite

/** What Scala writes is what Python writes and reads: the cases of tests/golden drive both. */
class FailureReportSuite extends AnyFunSuite with LocalSpark {
  private val mapper = new ObjectMapper

  private def cases(file: String): Seq[JsonNode] =
    mapper.readTree(Paths.get("tests", "golden", file).toFile).elements.asScala.toSeq

  cases("failures.json").foreach { golden =>
    test(s"the layout of a report: ${golden.path("about").asText}") {
      assert(report(golden.path("report")).layout == golden.path("layout").asText)
    }
  }

  private def report(node: JsonNode): FailureReport = {
    def option(field: String) = Option(node.get(field))
    FailureReport(
      node.path("type").asText,
      node.path("condition").asText,
      node.path("text").asText,
      node.path("operator").asText,
      node.path("kind").asText,
      node.path("message").asText,
      node.path("traceback").asText,
      option("key").map(_.asText),
      option("row").map(_.asText),
      option("timer").map(_.asText),
      option("attempts").map(_.asInt),
      option("elapsed_ms").map(_.asLong)
    )
  }

  cases("rows.json").foreach { golden =>
    val sql = golden.path("sql").asText
    test(s"a row is shown as Python shows it: $sql") {
      val made = spark.sql(sql)
      val row = made.queryExecution.toRdd.map(_.copy()).collect().head
      assert(PythonText.row(row, made.schema) == golden.path("row").asText)
    }
  }

  test("a key of one column is its value, one of several a Row") {
    def key(sql: String) = {
      val made = spark.sql(sql)
      PythonText.key(made.queryExecution.toRdd.map(_.copy()).collect().head, made.schema)
    }
    assert(key("SELECT 'a' k") == "'a'")
    assert(key("SELECT 'a' k, 1 n") == "Row(k='a', n=1)")
    assert(key("SELECT CAST(NULL AS string) k") == "None")
  }
}
