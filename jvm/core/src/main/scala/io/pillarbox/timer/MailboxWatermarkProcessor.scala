package io.pillarbox.timer

/**
 * Advances a timer service to a watermark without holding up the mailbox, and passes the watermark on behind the
 * timers it fires. Mailbox thread only.
 *
 * When a round of timers is interrupted, the rest follows by a deferrable mail, and downstream is given the progress
 * made so far: a watermark just before the next timer that is due (FLINK-40101: else everything downstream stands
 * still until a long round ends). The watermark itself is passed on when the last timer up to it has fired. A later
 * watermark that comes meanwhile replaces the one under way.
 *
 * @param forward
 *   passes a watermark downstream; called with ever greater ones
 */
final class MailboxWatermarkProcessor(
    timers: InternalTimerServiceImpl[_],
    interruption: TimerInterruption,
    forward: Long => Unit
) {
  private var highest = Long.MinValue
  private var forwarded = Long.MinValue
  private var continuationSent = false

  /** Whether timers up to the last watermark still have to fire. */
  def isPending: Boolean = continuationSent

  /** Fires the timers up to `time`, or begins to. A watermark below an earlier one is ignored. */
  def processWatermark(time: Long): Unit = {
    highest = math.max(highest, time)
    advance()
  }

  private def advance(): Unit =
    if (timers.advanceWatermark(highest)) forwardIfNew(highest)
    else {
      forwardIfNew(timers.nextTimestamp(TimerKind.EventTime) - 1)
      if (!continuationSent) {
        continuationSent = true
        interruption.continueLater(() => continue(), "fire more event-time timers")
      }
    }

  private def continue(): Unit = {
    continuationSent = false
    advance()
  }

  /** A timer registered for a passed time can be next: what downstream has been told stays. */
  private def forwardIfNew(time: Long): Unit = if (time > forwarded) {
    forwarded = time
    forward(time)
  }
}
