package io.pillarbox.mailbox

/** Sums up periods of time. Marked by the mailbox thread; `totalNanos` may be read by any. */
private[pillarbox] final class PeriodTimer {
  @volatile private var total = 0L
  private var since = 0L
  private var running = false

  /** Starts a period; without effect inside one. */
  def markStart(): Unit = if (!running) {
    running = true
    since = System.nanoTime()
  }

  /** Ends the period; without effect outside one. */
  def markEnd(): Unit = if (running) {
    running = false
    total += System.nanoTime() - since
  }

  /** Counts what has passed of a period that goes on. */
  def lap(): Unit = if (running) {
    markEnd()
    markStart()
  }

  /** Nanoseconds of all periods that have ended, and up to the last `lap` of one that goes on. */
  def totalNanos: Long = total
}
