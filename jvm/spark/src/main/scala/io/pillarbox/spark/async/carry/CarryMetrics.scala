package io.pillarbox.spark.async.carry

import io.pillarbox.spark.async.AsyncIOMetrics

/** The names of the metrics that the operator has in a query's progress. */
private[pillarbox] object CarryMetrics {
  val Calls = "numCalls"
  val InFlight = "numCallsInFlight"
  val Carried = "numRowsCarried"
  val Waiting = "numResultsWaiting"

  val ConcurrencyNow: String = AsyncIOMetrics.ConcurrencyNow

  val JournalHits: String = AsyncIOMetrics.JournalHits

  /** The counts of calls, by the names that they have in the operator without carry-over. */
  val counts: Seq[(String, String)] =
    AsyncIOMetrics.InProgress.filterNot { case (name, metric) => name == metric }

  val descriptions: Seq[(String, String)] = Seq(
    Calls -> "number of calls started",
    "numRetries" -> "number of calls that repeated a failed one",
    "numTimeouts" -> "number of deadlines that passed",
    "numErrors" -> "number of rows that failed for good",
    "numRateLimited" -> "number of calls that the service refused",
    "numShared" -> "number of rows that shared the call of another",
    "limitWaitMs" -> "time waiting for limits (ms)",
    InFlight -> "number of calls in flight at the end of the micro-batch",
    Carried -> "number of rows carried into the next micro-batch",
    Waiting -> "number of results that the next micro-batch emits",
    JournalHits -> "number of answers from the journal",
    ConcurrencyNow -> "number of calls that the limit allows at a time"
  )
}
