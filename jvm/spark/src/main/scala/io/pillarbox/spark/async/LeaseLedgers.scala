package io.pillarbox.spark.async

import java.util.UUID
import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.async.gate.{GateClock, Told}
import io.pillarbox.async.lease._
import org.apache.spark.SparkEnv
import org.apache.spark.sql.pillarbox.DriverMessages

/** Limits that the driver lends to executors: its ledgers, and the executors' way to them. Thread-safe. */
private[pillarbox] object LeaseLedgers extends DriverMessages.Lender {
  private val ledgers = new DriverLedgers(() => System.nanoTime())

  /** Returns an executor's part in a limit. */
  def borrow(key: String, terms: LeaseTerms): LeasedGate = {
    // A name for each gate, since each numbers its reports.
    val process = s"${SparkEnv.get.executorId}-${UUID.randomUUID()}"
    new LeasedGate(
      terms,
      ServiceOverload,
      GateClock.System,
      (report, answer) =>
        DriverMessages.lend(key, process, write(terms, report))(grant => answer(readGrant(grant)))
    )
  }

  override def lend(key: String, process: String, message: Array[Long]): Array[Long] = {
    val (terms, report) = readReport(message)
    val grant = ledgers.lend(key, terms, process, report)
    if (grant == null) Array.emptyLongArray else write(grant)
  }

  /** True if what was used of a limit still counts. On the driver. */
  def isInUse(key: String): Boolean = ledgers.isInUse(key)

  private[async] def write(terms: LeaseTerms, report: LeaseReport): Array[Long] = Array(
    terms.calls.toLong,
    if (terms.adaptive) 1L else 0L,
    bits(terms.most),
    terms.intervalNanos,
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

  private[async] def readReport(m: Array[Long]): (LeaseTerms, LeaseReport) = {
    val terms = LeaseTerms(m(0).toInt, m(1) == 1, number(m(2)), m(3))
    val use = if (terms.hasRate) readUse(m.drop(12)) else AmountUse.NoRate
    (terms, LeaseReport(m(4), m(5), m(6).toInt, m(7).toInt, m(8) == 1, m(9).toInt, m(10), m(11), use))
  }

  private def readUse(m: Array[Long]) = AmountUse(
    number(m(0)),
    m.drop(6).grouped(2).map(pair => pair(0) -> number(pair(1))).toSeq,
    number(m(1)),
    number(m(2)),
    m(3),
    Some(Told(number(m(4)), m(5))).filterNot(_.remaining.isNaN)
  )

  private[async] def write(grant: LeaseGrant): Array[Long] = {
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

  private[async] def readGrant(m: Array[Long]): LeaseGrant =
    LeaseGrant(m(0).toInt, m(1), m(2), AmountGrant(number(m(3)), m(4), m(5), number(m(6))))

  private def bits(number: Double): Long = java.lang.Double.doubleToLongBits(number)

  private def number(bits: Long): Double = java.lang.Double.longBitsToDouble(bits)
}

/**
 * The driver's ledgers. One is dropped once it is unused for ten minutes and like a new one. Thread-safe.
 *
 * @param nanoTime from an arbitrary origin
 */
private[async] final class DriverLedgers(nanoTime: () => Long) {
  import DriverLedgers._

  private val ledgers = mutable.HashMap.empty[(String, LeaseTerms), Lent]

  /** Returns the answer to a report; null if a later one has overtaken it. */
  def lend(key: String, terms: LeaseTerms, process: String, report: LeaseReport): LeaseGrant = synchronized {
    val now = nanoTime()
    ledgers.filterInPlace((_, lent) => now - lent.usedNanos < KeepNanos || !lent.ledger.isLikeNew(now))
    val lent = ledgers.getOrElseUpdate((key, terms), new Lent(new LeaseLedger(terms)))
    lent.usedNanos = now
    lent.ledger.report(process, report, now)
  }

  /** True if a ledger of the key would lend more if it were new. */
  def isInUse(key: String): Boolean = synchronized {
    val now = nanoTime()
    ledgers.exists { case ((of, _), lent) => of == key && !lent.ledger.isLikeNew(now) }
  }

  def size: Int = synchronized(ledgers.size)
}

private object DriverLedgers {
  private val KeepNanos = TimeUnit.MINUTES.toNanos(10)

  private final class Lent(val ledger: LeaseLedger) {
    var usedNanos = 0L
  }
}
