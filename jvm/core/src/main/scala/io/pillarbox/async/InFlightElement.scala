package io.pillarbox.async

import io.pillarbox.async.queue.StreamElementQueueEntry
import io.pillarbox.mailbox.ProcessingTimer

/**
 * A record from when it is taken in until its rows are known. Mailbox thread only, but for `elapsedMs` and
 * `callId`.
 */
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

  /** The call that it is part of; null where calls have no keys. */
  var keyed: KeyedCall[IN, OUT] = _

  /** Whether the call is made for it, and not for another that it shares with others. */
  def isCalled: Boolean = (keyed eq null) || (keyed.carrier eq null) || (keyed.carrier eq this)

  /** Written once, before the first future is handed out unless it was handed out ahead. */
  private var firstStartNanos: Long = 0L

  /** Made when first needed: most elements wait for nothing but their answer. */
  private var deadlines: Deadlines = _

  /** Any thread. */
  def callId: String = calls.callIdOf(input, elementId)

  def elapsedMs: Long = if (attempts == 0) 0L else (calls.nanoTime - firstStartNanos) / 1000000L

  def started(nanos: Long): Unit = {
    if (attempts == 0) firstStartNanos = nanos
    attempts += 1
  }

  def totalDeadlineMs: Long = if (deadlines eq null) Never else deadlines.totalMs

  /** The end of this phase: the attempt's deadline, or the time of the next attempt. */
  def phaseEndMs: Long = if (deadlines eq null) Never else deadlines.phaseEndMs

  def setTotalDeadline(ms: Long): Unit = orMakeDeadlines().totalMs = ms

  def setPhaseEnd(ms: Long): Unit =
    if (ms != Never) orMakeDeadlines().phaseEndMs = ms
    else if (deadlines ne null) deadlines.phaseEndMs = Never

  private def orMakeDeadlines(): Deadlines = {
    if (deadlines eq null) deadlines = new Deadlines
    deadlines
  }

  /**
   * The one timer of the element, for whichever of its deadlines comes first; null as long as it has had
   * none.
   */
  def timerOrNull: ProcessingTimer = deadlines

  private final class Deadlines extends ProcessingTimer {
    var totalMs: Long = Never
    var phaseEndMs: Long = Never

    override def onProcessingTime(timestampMs: Long): Unit = calls.onDeadline(InFlightElement.this)
  }
}

private[async] object InFlightElement {

  /** One that is restored with its rows. */
  def answered[IN, OUT](
      calls: CallDriver[IN, OUT],
      elementId: Long,
      input: IN,
      timestampMs: Long,
      results: java.util.Collection[OUT]
  ): InFlightElement[IN, OUT] = {
    val element = new InFlightElement[IN, OUT](calls, elementId, input, timestampMs)
    element.phase = Finished
    element.setResults(results)
    element
  }

  /** For a permit. */
  final val Waiting = 0

  /** An attempt is under way. */
  final val Running = 1

  /** For the time of the next attempt. */
  final val BackingOff = 2

  /** The rows are known. */
  final val Finished = 3

  /** Handed to the function ahead of its turn, or waits for others of its key. */
  final val InLine = 4

  /** For the answer of a call that it shares. */
  final val Sharing = 5

  final val Never = Long.MaxValue
}
