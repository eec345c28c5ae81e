package io.pillarbox.spark.plan

import io.pillarbox.spark.base.Build
import io.pillarbox.spark.keyed.KeyedErrors
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.Aggregate
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.pillarbox.{RealTimeMode, SparkAdapter}

/** Keyed operators in real-time mode, in which Spark runs operators with state since 4.3. */
private object RealTimeKeyed {

  /**
   * Plans the node. On the driver, when a micro-batch of a query in real-time mode is planned.
   *
   * @throws IllegalArgumentException if the query can't run so
   */
  def plan(node: KeyedProcess, child: SparkPlan): SparkPlan = {
    val name = node.spec.name
    if (!RealTimeMode.runsState)
      throw KeyedErrors.refused("REAL_TIME_KEYED", name, "spark" -> Build.sparkVersion)
    unfit(node).foreach { case (what, advice) =>
      throw KeyedErrors.refused("REAL_TIME_UNSUPPORTED", name, "what" -> what, "advice" -> advice)
    }
    val check = RealTimeMode.AllowlistCheck
    if (!SparkAdapter.sqlConf(SparkSession.active).getConfString(check, "true").equalsIgnoreCase("false"))
      throw KeyedErrors.refused("REAL_TIME_ALLOWLIST", name, "setting" -> check)
    KeyedProcessExec(node.alone, child, isRealTime = true)
  }

  /** What the node has or stands beside that can't be in this mode, and what to do. */
  private def unfit(node: KeyedProcess): Option[(String, String)] =
    if (node.spec.timeSorted)
      Some(
        "time_sorted=True" -> "Leave it out: rows would wait for the watermark, which moves between batches."
      )
    else if (node.orderBy.nonEmpty)
      Some(
        "order_by, or the order of a pb.tagged_union" -> "Rows are not sorted here, but taken as they come."
      )
    else if (node.spec.form == "arrow")
      Some(
        "the column form, of columns of many keys at once" -> "Write the function as a KeyedProcessFunction."
      )
    else if (node.calls.isDefined)
      Some("functions that make calls" -> "Call pb.async_io before or after the keyed function.")
    else if (node.initial.isDefined)
      Some("initial_state" -> "Leave it out: it is read by a shuffle that has to end before the first row.")
    else if (node.child.exists(below => below.isInstanceOf[Aggregate] && below.isStreaming))
      Some("a streaming aggregation before it" -> "Let the keyed function aggregate.")
    // Its timers would fire before the rows that the one before puts out under the same watermark.
    else if (node.hasWatermark && node.child.exists(_.isInstanceOf[KeyedProcess]))
      Some(
        "withWatermark and another keyed function before it" ->
          "Leave withWatermark out, or write the first one's rows to Kafka and let a query of its own read them."
      )
    else None
}
