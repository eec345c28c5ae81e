package io.pillarbox.spark.async

import java.util.UUID

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.scalatest.funsuite.AnyFunSuite

class CallProgressSuite extends AnyFunSuite {
  private val progress = UUID.randomUUID().toString

  private def report(stage: Long, part: Long, figures: Long*): Unit = reportOf(7, stage, part, figures: _*)

  private def reportOf(node: Long, stage: Long, part: Long, figures: Long*): Unit =
    CallProgress.onReport(progress, "prices", (Seq(stage, node, part, 4L) ++ figures).toArray)

  private def told: JsonNode = new ObjectMapper().readTree(CallProgress.json(progress))

  test("sums are of the last reports of each partition, and of nobody who has not asked") {
    report(1, 0, 9, 9, 9, 9, 9, 0)
    CallProgress.watch(progress)
    assert(!CallProgress.areThere(progress) && told.isEmpty)
    report(2, 0, 10, 11, 1, 0, 5, 0)
    report(2, 1, 20, 22, 2, 1, 0, 1)
    report(2, 0, 3, 3, 0, 0, 7, 0)
    report(1, 0, 1, 1, 0, 0, 0, 1)
    CallProgress.watch(progress)
    assert(told.size == 2 && CallProgress.areThere(progress))
    val expected =
      """{"operator":"prices","node":7,"stage":2,"ended":false,"tasks":4,"done":1,"done_rows":20,"rows":23,"calls":25,
      "retries":2,"errors":1,"in_flight":7}"""
    assert(told.get(0).get("stage").asInt == 1 && told.get(1) == new ObjectMapper().readTree(expected))
    CallProgress.forget(progress)
    report(2, 0, 10, 11, 1, 0, 5, 0)
    assert(told.isEmpty)
  }

  test("a stage has ended when Spark says so, whether each partition had rows or not") {
    CallProgress.watch(progress)
    report(1, 0, 1, 1, 0, 0, 0, 1)
    report(2, 0, 1, 1, 0, 0, 1, 0)
    assert(!told.get(0).get("ended").asBoolean)
    CallProgress.onStageEnd(1)
    assert(told.get(0).get("ended").asBoolean && !told.get(1).get("ended").asBoolean)
    CallProgress.forget(progress)
  }

  test("two operators of one name are told apart, and a killed copy of a task does not undo what is done") {
    CallProgress.watch(progress)
    reportOf(7, 1, 0, 10, 10, 0, 0, 0, 1)
    reportOf(8, 1, 0, 3, 3, 0, 0, 2, 0)
    reportOf(7, 1, 0, 4, 4, 0, 0, 0, 0)
    assert(told.size == 2 && told.get(0).get("rows").asLong == 10 && told.get(1).get("rows").asLong == 3)
    CallProgress.forget(progress)
  }
}
