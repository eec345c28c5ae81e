package io.pillarbox.async.gate

import scala.util.control.NonFatal

import io.pillarbox.api.{AsyncTimeoutException, RetryAfter}

/** Tells of a failed attempt whether the service was asked too much. Any thread. */
private[pillarbox] trait Overload {

  /** For how many ms no attempt is to begin; negative if it was no overload. */
  def pauseMs(error: Throwable): Long
}

private[pillarbox] object Overload {
  final val No = -1L

  /** Ten years: well below what a clock of nanoseconds can tell apart. */
  final val LongestPauseMs = 3650L * 24 * 60 * 60 * 1000

  /** Who says when to come back was asked too much, and so was who does not answer in time. */
  val Default: Overload = {
    case own: RetryAfter =>
      // One that can't say fails the call, elsewhere.
      try math.max(0L, own.retryAfterMs)
      catch { case NonFatal(_) => 0L }
    case _: AsyncTimeoutException => 0L
    case _ => No
  }
}
