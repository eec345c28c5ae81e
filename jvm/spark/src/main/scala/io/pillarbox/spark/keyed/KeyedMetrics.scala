package io.pillarbox.spark.keyed

/** The names of the operator's own metrics, besides those of every stateful operator of Spark. */
object KeyedMetrics {
  val EventTimersFired = "numEventTimersFired"
  val ProcessingTimersFired = "numProcessingTimersFired"
  val LoadMs = "stateLoadTimeMs"
  val CommitBytes = "commitBytes"
  val FileBytes = "stateFileBytes"
  val BackendReused = "numBackendsReused"
  val QuietPartitions = "numQuietPartitions"

  val descriptions: Seq[(String, String)] = Seq(
    EventTimersFired -> "number of event-time timers fired",
    ProcessingTimersFired -> "number of processing-time timers fired",
    LoadMs -> "time to load state (ms)",
    CommitBytes -> "bytes written by commits",
    FileBytes -> "bytes of state in local files",
    BackendReused -> "number of backends found open",
    QuietPartitions -> "number of partitions without rows or due timers"
  )
}
