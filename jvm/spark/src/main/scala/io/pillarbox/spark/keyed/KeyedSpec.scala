package io.pillarbox.spark.keyed

import com.fasterxml.jackson.databind.annotation.JsonDeserialize
import io.pillarbox.spark.async.AsyncIOSpec
import io.pillarbox.spark.base.{FailureReport, SpecJson}
import io.pillarbox.spark.state.{InitialColumn, StateStorage, StorageKind, TtlSpec}
import org.apache.spark.sql.types.StructType

/** A column of a scan's state, in SQL: its value before a key's first row, and after each row. */
private[pillarbox] final case class ScanColumn(name: String, init: String, update: String)

/**
 * The state and the results of a scan.
 *
 * @param select the columns of the rows that it puts out, over row and new state; empty for all of both
 */
private[pillarbox] final case class ScanSpec(
    state: Seq[ScanColumn],
    select: Seq[String],
    ttl: Option[TtlSpec]
)

/**
 * The options of one keyed operator, as the Python API sends them.
 *
 * @param form
 *   how the function is called: "row", "arrow" (Python), "jvm" (a class) or "scan" (SQL expressions)
 * @param by
 *   the key columns
 * @param returns
 *   the columns of the rows that go out; a scan finds them itself
 * @param timestamp
 *   the column with the event time; without one, the column with the watermark
 * @param orderBy
 *   sorts the rows of a key within a batch by these columns; empty for the order of arrival
 * @param timeSorted
 *   rows wait for the watermark and run in time order
 * @param inputs
 *   the columns that the function is given besides key and timestamp; empty for all
 * @param namesEventTime
 *   true if the options ask for event time; a function may do so, too
 * @param tags the side outputs; with any, `returns` has the column of the tag, those of the main output, and
 *   a struct for each
 * @param onLate
 *   the treatment of rows behind the watermark: "drop", "process" or "output"
 * @param late
 *   for "output": the column of the tag, and that of the late rows
 * @param initial
 *   the states that the query starts with
 * @param partitions
 *   the number of partitions of a stream's state; None for Spark's
 * @param calls
 *   the calls that a Python function makes
 * @param scan
 *   the expressions of the form "scan"
 * @param blockedLoopMs
 *   the time after which a worker's loop that does not turn ends the task
 * @param shown
 *   the options that are no defaults, for `explain()`
 */
private[pillarbox] final case class KeyedSpec(
    name: String,
    form: String,
    className: Option[String],
    options: Map[String, String],
    by: Seq[String],
    @JsonDeserialize(using = classOf[SpecJson.SchemaReader]) returns: StructType,
    timestamp: Option[String],
    backend: StorageKind,
    timers: Option[StorageKind],
    orderBy: Seq[String],
    timeSorted: Boolean,
    inputs: Seq[String],
    namesEventTime: Boolean,
    tags: Seq[String],
    onLate: String,
    @JsonDeserialize(using = classOf[SpecJson.SchemaReader]) late: StructType,
    initial: Seq[InitialColumn],
    @JsonDeserialize(contentAs = classOf[Integer]) partitions: Option[Int],
    calls: Option[AsyncIOSpec],
    scan: Option[ScanSpec],
    blockedLoopMs: Long,
    shown: Seq[String]
) {

  /** The operator as messages name it. */
  def operator: String = FailureReport.keyed(name)

  def storage: StateStorage = StateStorage(backend, timers.getOrElse(backend))

  /** The columns of the function's rows: those of one output are null in rows of the others. */
  def functionOutput: StructType =
    if (tags.isEmpty) returns else StructType(returns.head +: returns.tail.map(_.copy(nullable = true)))

  /** The columns of the rows that go out: those of the function, and of late rows if they go out, too. */
  def output: StructType =
    if (late.isEmpty) functionOutput
    else {
      val main = if (tags.isEmpty) returns.fields else returns.fields.tail
      StructType((late.head +: main.map(_.copy(nullable = true))) :+ late.last)
    }

  /** The options as `explain()` shows them. */
  def summary: Seq[String] =
    (Seq(name, s"form=$form") ++ className :+ s"by=${by.mkString("[", ", ", "]")}") ++ shown
}

private[pillarbox] object KeyedSpec {

  /** The tag of rows of the main output; the Python package has the same. */
  final val MainTag = "main"
}
