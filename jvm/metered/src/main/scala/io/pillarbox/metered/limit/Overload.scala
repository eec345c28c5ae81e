package io.pillarbox.metered.limit

import scala.util.control.NonFatal

import io.pillarbox.api.{AsyncTimeoutException, RetryAfter}

/** Tells of a failed attempt if the service was overloaded. Any thread. */
private[pillarbox] trait Overload {

  /** The time in ms for which no attempt is to begin; negative if it was no overload. */
  def pauseMs(error: Throwable): Long
}

private[pillarbox] object Overload {
  final val No = -1L

  /** Ten years, well below the range of a clock of nanoseconds. */
  final val LongestPauseNanos = 3650L * 24 * 60 * 60 * 1000 * 1000000

  /** Sees overload in an exception that says when to come back, and in a timeout. */
  val Default: Overload = {
    case own: RetryAfter =>
      // An exception that can't say fails the call, elsewhere.
      try math.max(0L, own.retryAfterMs)
      catch { case NonFatal(_) => 0L }
    case _: AsyncTimeoutException => 0L
    case _ => No
  }
}
