package io.pillarbox.async

import io.pillarbox.mailbox.ProcessingTimer

/** A record from when it is taken in until its rows are known. Mailbox thread only, but for `elapsedMs`. */
private[async] final class InFlightElement[IN, OUT](
    calls: CallDriver[IN, OUT],
    val elementId: Long,
    input: IN,
    timestampMs: Long
) extends StreamElementQueueEntry[IN, OUT](input, timestampMs, false) {
  import InFlightElement._

  var phase: Int = Waiting

  /** Attempts made so far. */
  var attempts: Int = 0

  /** The attempt whose answer counts, if there is one. */
  var current: CallAttempt[IN, OUT] = _
  var holdsPermit: Boolean = false

  /** The total deadline has passed: whatever comes now is the last. */
  var isTimedOut: Boolean = false
  var totalDeadlineMs: Long = Never

  /** The end of this phase: the attempt's deadline, or the time of the next attempt. */
  var phaseEndMs: Long = Never

  /** Written before the first future is handed out, never again. */
  private[this] var firstStartNanos: Long = 0L
  private[this] var timer: ProcessingTimer = _

  def elapsedMs: Long = if (attempts == 0) 0L else (calls.nanoTime - firstStartNanos) / 1000000L

  def started(nanos: Long): Unit = {
    if (attempts == 0) firstStartNanos = nanos
    attempts += 1
  }

  /** Made when first needed: most operators have no deadlines. */
  def orMakeTimer(): ProcessingTimer = {
    if (timer eq null) timer = new Deadline
    timer
  }

  def timerOrNull: ProcessingTimer = timer

  private final class Deadline extends ProcessingTimer {
    override def onProcessingTime(timestampMs: Long): Unit = calls.onDeadline(InFlightElement.this)
  }
}

private[async] object InFlightElement {

  /** For a permit. */
  val Waiting = 0

  /** An attempt is under way. */
  val Running = 1

  /** For the time of the next attempt. */
  val BackingOff = 2

  /** The rows are known. */
  val Finished = 3

  val Never: Long = Long.MaxValue
}
