package io.pillarbox.spark.base

import java.nio.file.Paths

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import io.pillarbox.spark.plan.ErrorText
import io.pillarbox.spark.{LocalSpark, PythonBridge}
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

  /** With the fields that have no value in it. */
  private def whole(report: ObjectNode): ObjectNode = {
    if (!report.has("traceback")) report.put("traceback", "")
    Seq("key", "row", "timer", "attempts", "elapsed_ms")
      .filterNot(report.has)
      .foreach(report.putNull(_): Unit)
    report
  }

  cases("failures.json").foreach { golden =>
    val report = SpecJson.read[FailureReport](whole(golden.path("report").asInstanceOf[ObjectNode]).toString)
    test(s"the text of a report: ${golden.path("about").asText}") {
      assert(report.told == golden.path("told").asText)
    }

    test(s"a report is found by what people read of it, and its JSON read: ${golden.path("about").asText}") {
      val read = report.errorText
      if (read.length > 2048) assert(RecentFailures.find(s"${read.take(2045)}...").contains(report))
      val found = PythonBridge.failureOf(s"$read SQLSTATE: 39000")
      assert(SpecJson.read[FailureReport](found) == report)
      val (given, json) = (golden.path("report"), mapper.readTree(found))
      given.fieldNames.asScala.foreach(field => assert(json.get(field) == given.get(field)))
    }
  }

  test("the text of an error that was never told is not found") {
    assert(PythonBridge.failureOf("[ASYNC_CALL_FAILED] async_io(g): no such") == null)
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
