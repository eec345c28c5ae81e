package io.pillarbox.async

import io.pillarbox.async.queue.StreamElementQueueEntry

/**
 * Calls that have no answer for long: the oldest of them, and how many there are.
 *
 * @param elapsedMs the time since this attempt began
 */
private[pillarbox] final case class LongCalls[IN](
    input: IN,
    attempt: Int,
    elapsedMs: Long,
    callId: String,
    count: Int
)

/** Looks for the oldest attempts among elements. Used once, on the mailbox thread. */
private[async] final class CallAges[IN, OUT](nowNanos: Long, longMs: Long) {
  private type Attempt = CallAttempt[IN, OUT]

  private var oldest: Attempt = _
  private var longest: Attempt = _
  private var count = 0

  /** The elements without rows that have no attempt under way. */
  var waiting: Int = 0

  def look(entry: StreamElementQueueEntry[IN, OUT]): Unit = {
    val attempt = underWay(entry)
    if (attempt eq null) { if (!entry.isDone) waiting += 1 }
    else {
      oldest = older(oldest, attempt)
      if (!attempt.isTold && ageMs(attempt) >= longMs) {
        attempt.isTold = true
        longest = older(longest, attempt)
        count += 1
      }
    }
  }

  private def underWay(entry: StreamElementQueueEntry[IN, OUT]): Attempt = entry match {
    case element: InFlightElement[IN, OUT] =>
      val attempt = (if (element.share eq null) element else element.share.carrier).current
      if ((attempt ne null) && attempt.hasBegun && !attempt.isDone) attempt else null
    case _ => null
  }

  private def older(one: Attempt, other: Attempt): Attempt =
    if ((one eq null) || other.startNanos - one.startNanos < 0) other else one

  private def ageMs(attempt: Attempt): Long = (nowNanos - attempt.startNanos) / 1000000L

  /** The age of the oldest attempt under way; 0 if there is none. */
  def oldestMs: Long = if (oldest eq null) 0L else ageMs(oldest)

  /** The attempts that are old, and were not before. */
  def long: Option[LongCalls[IN]] = Option.when(count > 0) {
    LongCalls(longest.element.input, longest.attempt, ageMs(longest), longest.callId, count)
  }
}
