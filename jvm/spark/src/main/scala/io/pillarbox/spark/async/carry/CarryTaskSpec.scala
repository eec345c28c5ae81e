package io.pillarbox.spark.async.carry

import io.pillarbox.spark.async.AsyncIOTaskSpec
import io.pillarbox.spark.checkpoint.PartitionCommits
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.metric.SQLMetric

/**
 * The description of one micro-batch of an operator with carry-over for its tasks, made on the driver.
 *
 * @param calls the description of the calls, with the scope of the operator
 * @param eventTimes
 *   of a kept row, in µs, bound to its columns: one for each column that has a watermark
 * @param lateWatermark rows with a time up to it were late when they came, in ms
 * @param since up to this version a slot without a file holds nothing
 * @param drain the slots that wait until nothing is in flight
 */
private[pillarbox] final case class CarryTaskSpec(
    calls: AsyncIOTaskSpec,
    columns: CarriedColumns,
    maxLagMs: Long,
    eventTimes: Seq[Expression],
    lateWatermark: Long,
    since: Long,
    drain: CarryRegistry.Drain,
    commits: PartitionCommits[SlotReport],
    metrics: Map[String, SQLMetric]
)
