package io.pillarbox.spark.async

import java.util.UUID
import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.async.gate.GateClock
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

  private def write(terms: LeaseTerms, report: LeaseReport): Array[Long] = Array(
    terms.calls.toLong,
    if (terms.adaptive) 1L else 0L,
    terms.starts.toLong,
    terms.intervalNanos,
    report.number,
    report.applied,
    report.holds.toLong,
    report.inUse.toLong,
    if (report.isWaiting) 1L else 0L,
    report.answered.toLong,
    report.overloadNanos,
    report.pauseNanos
  )

  private def readReport(m: Array[Long]): (LeaseTerms, LeaseReport) = (
    LeaseTerms(m(0).toInt, m(1) == 1, m(2).toInt, m(3)),
    LeaseReport(m(4), m(5), m(6).toInt, m(7).toInt, m(8) == 1, m(9).toInt, m(10), m(11))
  )

  private def write(grant: LeaseGrant): Array[Long] =
    Array(grant.permits.toLong, grant.tokens.toLong, grant.pauseNanos)

  private def readGrant(m: Array[Long]) = LeaseGrant(m(0).toInt, m(1).toInt, m(2))
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

  def size: Int = synchronized(ledgers.size)
}

private object DriverLedgers {
  private val KeepNanos = TimeUnit.MINUTES.toNanos(10)

  private final class Lent(val ledger: LeaseLedger) {
    var usedNanos = 0L
  }
}
