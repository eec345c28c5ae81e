package io.pillarbox.spark.async

import io.pillarbox.metered.lease._
import io.pillarbox.metered.limit.{Feedback, LimitTerms}

/**
 * What executors and the driver tell each other of limits, in longs. A report begins with its limit's terms;
 * a message of many values with [[OfValues]], which is no number of calls.
 */
private[async] object LeaseMessages {
  private final val OfValues = -1L
  private final val TermsSize = 4
  private final val ValueHead = 4

  def write(terms: LimitTerms, report: LeaseReport): Array[Long] = write(terms) ++ write(report, terms)

  private def write(terms: LimitTerms): Array[Long] =
    Array(terms.calls.toLong, if (terms.adaptive) 1L else 0L, bits(terms.most), terms.intervalNanos)

  private def write(report: LeaseReport, terms: LimitTerms): Array[Long] = Array(
    report.number,
    report.applied,
    report.holds.toLong,
    report.inUse.toLong,
    if (report.isWaiting) 1L else 0L,
    report.answered.toLong,
    report.overloadNanos,
    report.pauseNanos
  ) ++ (if (terms.hasRate) write(report.use) else Array.emptyLongArray)

  private def write(use: AmountUse): Array[Long] = Array(
    bits(use.first),
    bits(use.missing),
    bits(use.reported),
    use.reports,
    bits(use.told.fold(Double.NaN)(_.remaining)),
    use.told.fold(0L)(_.resetNanos)
  ) ++ use.returned.flatMap { case (slot, sum) => Seq(slot, bits(sum)) }

  def readReport(m: Array[Long]): (LimitTerms, LeaseReport) = {
    val terms = readTerms(m)
    (terms, readReport(m.drop(TermsSize), terms))
  }

  private def readTerms(m: Array[Long]) = LimitTerms(m(0).toInt, m(1) == 1, number(m(2)), m(3))

  private def readReport(m: Array[Long], terms: LimitTerms) = LeaseReport(
    m(0),
    m(1),
    m(2).toInt,
    m(3).toInt,
    m(4) == 1,
    m(5).toInt,
    m(6),
    m(7),
    if (terms.hasRate) readUse(m.drop(8)) else AmountUse.NoRate
  )

  private def readUse(m: Array[Long]) = AmountUse(
    number(m(0)),
    m.drop(6).grouped(2).map(pair => pair(0) -> number(pair(1))).toSeq,
    number(m(1)),
    number(m(2)),
    m(3),
    Some(Feedback(number(m(4)), m(5))).filterNot(_.remaining.isNaN)
  )

  def write(grant: LeaseGrant): Array[Long] = {
    import grant.amount
    Array(
      grant.permits.toLong,
      grant.pauseNanos,
      grant.reportNanos,
      bits(amount.amount),
      amount.slot,
      amount.lifeNanos,
      bits(amount.mean)
    )
  }

  def readGrant(m: Array[Long]): LeaseGrant =
    LeaseGrant(m(0).toInt, m(1), m(2), AmountGrant(number(m(3)), m(4), m(5), number(m(6))))

  def isOfValues(m: Array[Long]): Boolean = m(0) == OfValues

  def write(terms: LimitTerms, reports: Seq[ValueReport]): Array[Long] =
    (OfValues +: write(terms)) ++ reports.flatMap { one =>
      val report = write(one.report, terms)
      Array(one.value.high, one.value.low, one.gate, report.length.toLong) ++ report
    }

  def readReports(m: Array[Long]): (LimitTerms, Seq[ValueReport]) = {
    val terms = readTerms(m.drop(1))
    val reports = Seq.newBuilder[ValueReport]
    var at = 1 + TermsSize
    while (at < m.length) {
      val end = at + ValueHead + m(at + 3).toInt
      val report = readReport(m.slice(at + ValueHead, end), terms)
      reports += ValueReport(LimitValue(m(at), m(at + 1)), m(at + 2), report)
      at = end
    }
    (terms, reports.result())
  }

  def write(answers: ValueGrants): Array[Long] = answers.gapNanos +: answers.grants
    .flatMap(grant => grant.map(write(_)).fold(Array(0L))(written => written.length.toLong +: written))
    .toArray

  def readGrants(m: Array[Long]): ValueGrants = {
    val grants = Seq.newBuilder[Option[LeaseGrant]]
    var at = 1
    while (at < m.length) {
      val end = at + 1 + m(at).toInt
      grants += Option.when(m(at) > 0)(readGrant(m.slice(at + 1, end)))
      at = end
    }
    ValueGrants(m(0), grants.result())
  }

  private def bits(number: Double): Long = java.lang.Double.doubleToLongBits(number)

  private def number(bits: Long): Double = java.lang.Double.longBitsToDouble(bits)
}
