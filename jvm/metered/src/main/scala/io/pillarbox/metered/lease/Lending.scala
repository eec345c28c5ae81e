package io.pillarbox.metered.lease

import java.util.concurrent.TimeUnit

import io.pillarbox.metered.limit.{Feedback, LimitTerms}

/** The times of lending. */
private[pillarbox] object LeaseTimes {

  /** The time after which permits that are not renewed go back. */
  val LeaseNanos: Long = TimeUnit.SECONDS.toNanos(10)

  /** The same for a process that is to report so often. */
  def leaseNanosOf(reportNanos: Long): Long = math.max(LeaseNanos, 4 * reportNanos)

  /** The shortest time from the request of an amount within which it is used, or not at all. */
  def tokenNanos(terms: LimitTerms): Long =
    math.max(ShortestToken, math.min(LongestToken, terms.intervalNanos / 100))

  /** The shortest time between two reports of a process that waits. */
  def reportNanos(terms: LimitTerms): Long =
    if (terms.hasRate) math.min(ReportNanos, tokenNanos(terms) / 2) else ReportNanos

  /** The time between two messages of each process: all of so many send 2,000 a second at most. */
  def gapNanos(processes: Int): Long = processes * PerReport

  private val ReportNanos = TimeUnit.MILLISECONDS.toNanos(250)
  private val PerReport = TimeUnit.MICROSECONDS.toNanos(500)
  private val ShortestToken = TimeUnit.MILLISECONDS.toNanos(20)
  private val LongestToken = TimeUnit.MILLISECONDS.toNanos(500)
}

/**
 * Names a limit for all that share it.
 *
 * @param name the limit's
 * @param value that of its key, for a limit that holds for each value by itself
 */
private[pillarbox] final case class LimitKey(name: String, value: Option[LimitValue] = None)

/** A value of a limit's key: a hash of 128 bits, which must not be the same for two. */
private[pillarbox] final case class LimitValue(high: Long, low: Long)

/**
 * Says what a process has and needs of something that is lent.
 *
 * A process has a part of it, and each part numbers its reports: 1, 2, ... in the order in which they are sent.
 */
private[pillarbox] trait Report {
  def number: Long
}

/** The answer to a report. */
private[pillarbox] trait Grant

/**
 * A report on its way to the driver.
 *
 * @param name that of the limit, or of the budget's account
 * @param part the number of the part in its process
 */
private[pillarbox] final case class Sent(name: String, part: Long, report: Report)

/**
 * The answer to a message of reports.
 *
 * @param gapNanos the shortest time between two messages of the process; 0 for one that was sent alone
 * @param grants those of the reports, in their order; none where a later report has overtaken one
 */
private[pillarbox] final case class Grants(gapNanos: Long, grants: Seq[Option[Grant]])

/**
 * A report of a process on a limit.
 *
 * @param value that of the limit's key, if it has one
 * @param applied the number of the report whose answer is in force at the process; 0 for none
 * @param holds the permits that it has, in use or not
 * @param inUse the attempts under way
 * @param isWaiting true if calls wait for a permit or an amount
 * @param answered the attempts that were answered since the last report
 * @param overloadNanos the age of the youngest attempt that met overload since the last report; negative for
 *   none
 * @param pauseNanos the time for which no attempt is to begin, by a pause that began in the process
 * @param use what it does with the amounts of a rate
 */
private[pillarbox] final case class LimitReport(
    value: Option[LimitValue],
    terms: LimitTerms,
    override val number: Long,
    applied: Long,
    holds: Int,
    inUse: Int,
    isWaiting: Boolean,
    answered: Int,
    overloadNanos: Long,
    pauseNanos: Long,
    use: AmountUse = AmountUse.NoRate
) extends Report {

  /** True if the process gives back all that it has: no answer under way is applied. */
  def leaves: Boolean = applied >= number
}

/**
 * The use of the amounts that a process was granted. Sums are those since its beginning, so that a report that
 * is lost does no harm.
 *
 * @param first the amount that its first waiting call needs; NaN for the mean of what has been reported
 * @param returned what it has not used of grants, where that may be news
 * @param missing the sum of what calls used beyond what they were charged with
 * @param reported the sum of what calls have reported
 * @param reports the number of calls that have reported
 * @param told what the service has said since the last report
 */
private[pillarbox] final case class AmountUse(
    first: Double,
    returned: Seq[Returned] = Nil,
    missing: Double = 0.0,
    reported: Double = 0.0,
    reports: Long = 0L,
    told: Option[Feedback] = None
)

private[pillarbox] object AmountUse {
  val NoRate: AmountUse = AmountUse(1.0)
}

/**
 * What a process has not used of a grant.
 *
 * @param grant the number of the report that it answered
 * @param sum the amount until now
 * @param isOver true if no more will be returned
 */
private[pillarbox] final case class Returned(grant: Long, sum: Double, isOver: Boolean)

/**
 * The answer to a report on a limit.
 *
 * @param permits the attempts that may be under way until the lease ends, which began when the report was
 *   sent
 * @param pauseNanos the time after which attempts may begin
 * @param reportNanos the time after which to report again
 * @param amount what the process may use of a rate
 */
private[pillarbox] final case class LimitGrant(
    permits: Int,
    pauseNanos: Long,
    reportNanos: Long,
    amount: AmountGrant = AmountGrant.NoRate
) extends Grant

/**
 * A part of a rate.
 *
 * @param amount it replaces what is left of the one before, unless it is 0
 * @param lifeNanos the time since the report was sent within which it is used, or not at all
 * @param mean the mean of what all processes have reported; NaN if nothing was
 */
private[pillarbox] final case class AmountGrant(amount: Double, lifeNanos: Long, mean: Double)

private[pillarbox] object AmountGrant {
  val NoRate: AmountGrant = AmountGrant(0.0, 0L, Double.NaN)
}
