package io.pillarbox.spark.keyed

import io.pillarbox.spark.state.StateTaskSpec
import io.pillarbox.spark.task.OperatorFigure
import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/** The names of the operator's own metrics, besides those of every stateful operator of Spark. */
private[pillarbox] object KeyedMetrics {
  val EventTimersFired = "numEventTimersFired"
  val ProcessingTimersFired = "numProcessingTimersFired"
  val LateRows = "numLateRows"
  val QuietPartitions = "numQuietPartitions"

  val descriptions: Seq[(String, String)] = Seq(
    EventTimersFired -> "number of event-time timers fired",
    ProcessingTimersFired -> "number of processing-time timers fired",
    LateRows -> "number of late rows that were processed or put out",
    QuietPartitions -> "number of partitions without rows or due timers"
  ) ++ StateTaskSpec.metricDescriptions

  /** The names in Spark's metrics system, and the metrics that they are. */
  val InSystem: Seq[(String, String)] = Seq(
    "rows" -> "numOutputRows",
    "eventTimersFired" -> EventTimersFired,
    "processingTimersFired" -> ProcessingTimersFired,
    "lateRows" -> LateRows
  )

  /** Shows a task's metrics in Spark's metrics system, from their present values on, until it is closed. */
  def show(operator: String, metrics: Map[String, SQLMetric]): AutoCloseable = OperatorFigure.follow(
    operator,
    for ((name, metric) <- InSystem; counted <- metrics.get(metric)) yield {
      val before = counted.value
      name -> (() => counted.value - before)
    }
  )

  /**
   * How long it is to the next timers of a stream's partitions, after the watermark and the time of the
   * micro-batch. In the UI only, since a sum of them tells nothing. On the driver.
   */
  def ofTimers(sc: SparkContext): Map[String, SQLMetric] = Map(
    StateTaskSpec.NextEventTimer -> SQLMetrics.createTimingMetric(sc, "time to the next event-time timer"),
    StateTaskSpec.NextProcessingTimer ->
      SQLMetrics.createTimingMetric(sc, "time to the next processing-time timer")
  )

  // Spark's own names for them.
  val PythonBytesSent = "pythonDataSent"
  val PythonBytesReceived = "pythonDataReceived"
  val PythonStartMs = "pythonBootTime"
  val PythonOpenMs = "pythonInitTime"
  val PythonRunMs = "pythonTotalTime"

  /** The metrics of a Python function; none for other functions, which would show zeros. On the driver. */
  def ofPython(factory: KeyedOperatorFactory, sc: SparkContext): Map[String, SQLMetric] =
    if (!factory.runsPython) Map.empty
    else
      Map(
        PythonBytesSent -> SQLMetrics.createSizeMetric(sc, "data sent to Python workers"),
        PythonBytesReceived -> SQLMetrics.createSizeMetric(sc, "data returned from Python workers"),
        PythonStartMs -> SQLMetrics.createTimingMetric(sc, "time to start Python workers"),
        PythonOpenMs -> SQLMetrics.createTimingMetric(sc, "time to initialize Python workers"),
        PythonRunMs -> SQLMetrics.createTimingMetric(sc, "time to run Python workers")
      )
}
