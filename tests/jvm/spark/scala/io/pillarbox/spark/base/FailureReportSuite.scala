package io.pillarbox.spark.base

import java.nio.file.Paths

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import io.pillarbox.spark.LocalSpark
import io.pillarbox.spark.plan.ErrorText
import org.apache.spark.sql.Row
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.scalatest.funsuite.AnyFunSuite

/** What Scala writes is what Python writes and reads: the cases of tests/golden drive both. */
class FailureReportSuite extends AnyFunSuite with LocalSpark {
  private val mapper = new ObjectMapper

  /** The default of Python's side, which is Spark's. */
  private val Default = PythonText(show = true, "(?i)secret|password|token|access[.]?key")

  private def cases(file: String): Seq[JsonNode] =
    mapper.readTree(Paths.get("tests", "golden", file).toFile).elements.asScala.toSeq

  cases("failures.json").foreach { golden =>
    test(s"the layout of a report: ${golden.path("about").asText}") {
      assert(report(golden.path("report")).layout == golden.path("layout").asText)
    }
  }

  test("people read the layout without its line, and who has read it finds the report") {
    cases("failures.json").foreach { golden =>
      val (one, layout) = (report(golden.path("report")), golden.path("layout").asText)
      val read = RecentFailures.textOf(one)
      if (read.length > 2048) assert(RecentFailures.find(s"${read.take(2045)}...").contains(one))
      assert(layout.length > read.length && RecentFailures.find(s"$read SQLSTATE: 39000").contains(one))
      val line = layout.linesIterator.filter(_.startsWith("pillarbox-failure {\"type\"")).toSeq
      assert(line.size == 1 && read == layout.replaceFirst(s"\n{1,2}\\Q${line.head}\\E", ""))
    }
    assert(RecentFailures.find("[ASYNC_CALL_FAILED] async_io(g): no such").isEmpty)
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
    val show = golden.path("show").asBoolean(true)
    test(s"a row is shown as Python shows it: $sql${if (show) "" else ", hidden"}") {
      val made = spark.sql(sql)
      val row = made.queryExecution.toRdd.map(_.copy()).collect().head
      val text = PythonText(show, golden.path("redaction").asText(Default.redaction))
      assert(text.row(row, made.schema) == golden.path("row").asText)
      Option(golden.get("key")).foreach(key => assert(text.key(row, made.schema) == key.asText))
    }
  }

  test("what a function of the JVM answers is hidden by the names of the columns it is for") {
    val columns = StructType.fromDDL("n int, s struct<token: string>, v string")
    val row = Row(1, Row("sk"), "x")
    assert(Default.answer(row, columns) == s"1, ${PythonText.Hidden}, x")
    assert(Default.about(columns)("sk") == PythonText.Hidden)
    assert(Default.about(StructType.fromDDL("m map<string, int>"))("1") == "1")
    val hidden = Default.copy(show = false)
    assert(hidden.answer(row, columns) == PythonText.Hidden)
    assert(hidden.about(new StructType)("1") == PythonText.Hidden)
  }

  test("settings that Spark has of its own, and ours, say what is shown") {
    val conf = new SQLConf
    assert(ErrorText.of(conf) == Default)
    conf.setConfString("spark.redaction.regex", "iban")
    conf.setConfString(PillarboxConf.ShowValues.key, " FALSE ")
    assert(ErrorText.of(conf) == PythonText(show = false, "iban"))
  }
}
