package io.pillarbox.spark.async

import java.lang.ref.WeakReference
import java.util.UUID
import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.metered.lease._
import io.pillarbox.metered.limit._
import org.apache.spark.SparkEnv
import org.apache.spark.sql.pillarbox.DriverMessages

/** Limits that the driver lends to executors: its ledgers, and the executors' way to them. Thread-safe. */
private[pillarbox] object LeaseLedgers extends DriverMessages.Lender {
  private val ledgers = new DriverLedgers(() => System.nanoTime())

  /** The ways of limits that have a key: each lives as long as the part of one of its values. */
  private val ways = mutable.HashMap.empty[(String, LimitTerms), WeakReference[ValueReports]]

  /** Returns an executor's part in a limit. */
  def borrow(key: LimitKey, terms: LimitTerms, breaker: Breaker): LentLimit =
    key.value.fold(part(key.name, terms, breaker))(wayOf(key.name, terms).part(_, breaker))

  private def part(name: String, terms: LimitTerms, breaker: Breaker) = {
    val send = sender(name)(LeaseMessages.write(terms, _: LeaseReport), LeaseMessages.readGrant)
    new LentLimit(terms, ServiceOverload, LimitClock.System, send, breaker)
  }

  private def wayOf(name: String, terms: LimitTerms): ValueReports = synchronized {
    val known = ways.get((name, terms)).map(_.get).filter(_ != null)
    known.getOrElse {
      val made = newWay(name, terms)
      ways.filterInPlace((_, way) => way.get != null)
      ways((name, terms)) = new WeakReference(made)
      made
    }
  }

  private def newWay(name: String, terms: LimitTerms) = {
    val send = sender(name)(LeaseMessages.write(terms, _: Seq[ValueReport]), LeaseMessages.readGrants)
    new ValueReports(terms, ServiceOverload, LimitClock.System, send)
  }

  /** Returns the way of one sender to the ledgers, which has a name of its own, since each numbers its reports. */
  private def sender[A, B](name: String)(
      write: A => Array[Long],
      read: Array[Long] => B
  ): (A, B => Unit) => Unit = {
    val process = s"${SparkEnv.get.executorId}-${UUID.randomUUID()}"
    (sent, answer) => DriverMessages.lend(name, process, write(sent))(told => answer(read(told)))
  }

  override def lend(key: String, process: String, message: Array[Long]): Array[Long] =
    if (LeaseMessages.isOfValues(message)) {
      val (terms, reports) = LeaseMessages.readReports(message)
      LeaseMessages.write(ledgers.lend(key, terms, process, reports))
    } else {
      val (terms, report) = LeaseMessages.readReport(message)
      val grant = ledgers.lend(key, terms, process, report)
      if (grant == null) Array.emptyLongArray else LeaseMessages.write(grant)
    }

  /** True if what was used of a limit still counts. On the driver. */
  def isInUse(key: String): Boolean = ledgers.isInUse(key)
}

/**
 * The driver's ledgers. One is dropped once it is unused for ten minutes and like a new one, and those of a
 * limit that has a key as [[ValueLedgers]] has it. Thread-safe.
 *
 * @param nanoTime from an arbitrary origin
 */
private[async] final class DriverLedgers(nanoTime: () => Long) {
  import DriverLedgers._

  private val ledgers = mutable.HashMap.empty[(String, LimitTerms), Lent]
  private val ofValues = mutable.HashMap.empty[(String, LimitTerms), ValueLedgers]
  private var sweptNanos = nanoTime()

  /** Returns the answer to a report; null if a later one has overtaken it. */
  def lend(key: String, terms: LimitTerms, process: String, report: LeaseReport): LeaseGrant = synchronized {
    val now = nanoTime()
    forgetUnused(now)
    val lent = ledgers.getOrElseUpdate((key, terms), new Lent(new LeaseLedger(terms)))
    lent.usedNanos = now
    lent.ledger.report(process, report, now)
  }

  /** Returns the answer to a message on values of a limit's key. */
  def lend(key: String, terms: LimitTerms, process: String, reports: Seq[ValueReport]): ValueGrants =
    synchronized {
      val now = nanoTime()
      forgetUnused(now)
      ofValues.getOrElseUpdate((key, terms), new ValueLedgers(terms)).report(process, reports, now)
    }

  /** Forgets ledgers, at any report: those of one kind may outlive all reports of theirs. */
  private def forgetUnused(now: Long): Unit = if (now - sweptNanos >= SweepNanos) {
    ledgers.filterInPlace((_, lent) => now - lent.usedNanos < KeepNanos || !lent.ledger.isLikeNew(now))
    ofValues.filterInPlace((_, values) => !values.isForgotten(now))
    sweptNanos = now
  }

  /** True if a ledger of the key would lend more if it were new. */
  def isInUse(key: String): Boolean = synchronized {
    val now = nanoTime()
    ledgers.exists { case ((of, _), lent) => of == key && !lent.ledger.isLikeNew(now) } ||
    ofValues.exists { case ((of, _), values) => of == key && values.isInUse(now) }
  }

  /** The number of ledgers, of values too. */
  def size: Int = synchronized(ledgers.size + ofValues.valuesIterator.map(_.size).sum)
}

private object DriverLedgers {
  private val KeepNanos = TimeUnit.MINUTES.toNanos(10)
  private val SweepNanos = TimeUnit.SECONDS.toNanos(10)

  private final class Lent(val ledger: LeaseLedger) {
    var usedNanos = 0L
  }
}
