package io.pillarbox.operator

import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/**
 * A row of a case: the micro-batch it comes in, its time in microseconds if it has one, and what the function
 * does.
 */
final case class GoldenRow(step: Int, micros: Option[Long], ops: String, place: Int)

/** What micro-batches come to; see tests/golden/README.md. */
final case class GoldenClock(watermark: Long, processingTime: Long)

/** What is there, at the start or in the end. */
final case class GoldenState(value: Option[Long], list: Seq[Long], timers: Seq[String])

final case class GoldenCase(
    name: String,
    timeSorted: Boolean,
    clock: Seq[GoldenClock],
    initial: GoldenState,
    rows: Seq[GoldenRow],
    on: Map[String, String],
    stream: Seq[String],
    batch: Seq[String],
    left: GoldenState
)

/** The cases of tests/golden. */
object GoldenCases {
  private val mapper = new ObjectMapper
  private val names = Seq("order.json", "order_random.json")

  /** Those of the repository, and of the file that `PILLARBOX_GOLDEN` names. */
  def all: Seq[GoldenCase] =
    names.map(Paths.get("tests", "golden", _)).flatMap(read) ++
      sys.env.get("PILLARBOX_GOLDEN").toSeq.flatMap(more => read(Paths.get(more)))

  private def read(file: Path): Seq[GoldenCase] = {
    val root = mapper.readTree(Files.readString(file))
    root.get("cases").asScala.map(caseOf(_, root.get("clock"))).toSeq
  }

  private def caseOf(node: JsonNode, clock: JsonNode): GoldenCase = GoldenCase(
    node.get("name").asText,
    node.path("time_sorted").asBoolean,
    Option(node.get("clock")).getOrElse(clock).asScala.map(clockOf).toSeq,
    stateOf(node.path("initial")),
    node.get("rows").asScala.zipWithIndex.map { case (row, place) => rowOf(row, place) }.toSeq,
    node.path("on").properties.asScala.map(entry => entry.getKey -> entry.getValue.asText).toMap,
    texts(node.path("stream")),
    texts(node.path("batch")),
    stateOf(node.path("left"))
  )

  private def rowOf(node: JsonNode, place: Int): GoldenRow = GoldenRow(
    node.get(0).asInt,
    Option.when(!node.get(1).isNull)((node.get(1).asDouble * 1000).toLong),
    node.get(2).asText,
    place
  )

  private def clockOf(node: JsonNode): GoldenClock =
    GoldenClock(if (node.get(0).isNull) Long.MinValue else node.get(0).asLong, node.get(1).asLong)

  private def stateOf(node: JsonNode): GoldenState = GoldenState(
    Option(node.get("value")).filterNot(_.isNull).map(_.asLong),
    node.path("list").asScala.map(_.asLong).toSeq,
    texts(node.path("timers"))
  )

  private def texts(node: JsonNode): Seq[String] = node.asScala.map(_.asText).toSeq
}
