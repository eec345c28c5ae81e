package io.pillarbox.async.lease

import java.util.concurrent.TimeUnit

/**
 * The limits over all processes together.
 *
 * @param calls the calls under way at a time; 0 for no limit
 * @param adaptive true if `calls` is the most, and the limit follows what the service bears
 * @param starts the calls that begin in an interval; 0 for no limit
 * @param intervalNanos the length of that interval
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

  /** The time from the request of a token within which it is used, or not at all. */
  val tokenNanos: Long = math.max(ShortestToken, math.min(LongestToken, intervalNanos / 50))

  /** The time between two reports of a process that waits. */
  val reportNanos: Long = if (starts > 0) math.min(ReportNanos, tokenNanos / 2) else ReportNanos
}

private[pillarbox] object LeaseTerms {

  /** The time after which permits that are not renewed go back. */
  val LeaseNanos: Long = TimeUnit.SECONDS.toNanos(10)

  private val ReportNanos = TimeUnit.MILLISECONDS.toNanos(250)
  private val ShortestToken = TimeUnit.MILLISECONDS.toNanos(20)
  private val LongestToken = TimeUnit.MILLISECONDS.toNanos(500)
}

/**
 * A report of a process to the lender.
 *
 * @param number its place, 1, 2, ... in the order in which reports are sent
 * @param applied the number of the report whose answer is in force at the process; 0 for none
 * @param holds the permits that it has, in use or not
 * @param inUse the attempts under way
 * @param isWaiting true if calls wait for a permit or a token
 * @param answered the attempts that were answered since the last report
 * @param overloadNanos the age of the youngest attempt that met overload since the last report; negative for
 *   none
 * @param pauseNanos the time for which no attempt is to begin
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
 * @param permits the attempts that may be under way until the lease ends, which began when the report was
 *   sent
 * @param tokens the attempts that may begin
 * @param pauseNanos the time after which they may begin
 */
private[pillarbox] final case class LeaseGrant(permits: Int, tokens: Int, pauseNanos: Long)
