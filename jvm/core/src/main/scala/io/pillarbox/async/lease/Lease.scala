package io.pillarbox.async.lease

import java.util.concurrent.TimeUnit

/**
 * What is limited, over all processes together.
 *
 * @param calls
 *   under way at a time; 0 for no limit
 * @param adaptive
 *   whether that is the most, and the limit follows what the service bears
 * @param starts
 *   calls that begin in an interval; 0 for no limit
 * @param intervalNanos
 *   that interval
 */
private[pillarbox] final case class LeaseTerms(
    calls: Int,
    adaptive: Boolean = false,
    starts: Int = 0,
    intervalNanos: Long = 1L
) {
  import LeaseTerms._

  require(calls >= 0 && starts >= 0 && intervalNanos > 0, s"$this")
  require(calls > 0 || starts > 0, "A lease needs a limit")

  /** A token that was given is used within this time from when it was asked for, or not at all. */
  val tokenNanos: Long = math.max(ShortestToken, math.min(LongestToken, intervalNanos / 50))

  /** A process that waits says so this often. */
  val reportNanos: Long = if (starts > 0) math.min(ReportNanos, tokenNanos / 2) else ReportNanos
}

private[pillarbox] object LeaseTerms {

  /** Permits that are not renewed go back after this time. */
  val LeaseNanos: Long = TimeUnit.SECONDS.toNanos(10)

  private val ReportNanos = TimeUnit.MILLISECONDS.toNanos(250)
  private val ShortestToken = TimeUnit.MILLISECONDS.toNanos(20)
  private val LongestToken = TimeUnit.MILLISECONDS.toNanos(500)
}

/**
 * What a process tells the lender.
 *
 * @param number
 *   1, 2, ... in the order in which they are sent
 * @param applied
 *   the number of the report whose answer the process goes by; 0 for none
 * @param holds
 *   permits that it has, in use or not
 * @param inUse
 *   attempts under way
 * @param isWaiting
 *   whether calls wait for a permit or a token
 * @param answered
 *   attempts that were answered since the last report
 * @param overloadNanos
 *   the age of the youngest attempt that met overload since the last report; negative for none
 * @param pauseNanos
 *   for so long no attempt is to begin
 */
private[pillarbox] final case class LeaseReport(
    number: Long,
    applied: Long,
    holds: Int,
    inUse: Int,
    isWaiting: Boolean,
    answered: Int,
    overloadNanos: Long,
    pauseNanos: Long
)

/**
 * The answer to a report.
 *
 * @param permits
 *   attempts that may be under way until the lease ends, which began when the report was sent
 * @param tokens
 *   attempts that may begin
 * @param pauseNanos
 *   after this time
 */
private[pillarbox] final case class LeaseGrant(permits: Int, tokens: Int, pauseNanos: Long)
