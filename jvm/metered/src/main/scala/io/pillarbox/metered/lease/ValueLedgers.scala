package io.pillarbox.metered.lease

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.metered.limit.LimitTerms

/**
 * The lender's ledgers of one limit that has a key, one for each of its values. One thread at a time.
 *
 * It tells processes how often to report: all of them together send at most 2,000 messages a second, and tell
 * of their values so often that it hears at most 20,000 reports a second of those that are in use. A value
 * that is not is forgotten as soon as a new ledger would lend just as much, or ten minutes after its last
 * report if something was learned.
 */
private[pillarbox] final class ValueLedgers(terms: LimitTerms) {
  import ValueLedgers._

  private val values = mutable.HashMap.empty[LimitValue, Lent]
  private val processes = mutable.HashMap.empty[String, Long]
  private var inUse = 0
  private var sweptNanos = 0L
  private var sweptSize = 0

  /** The number of values that are known. */
  def size: Int = values.size

  /** Answers a message. */
  def report(process: String, reports: Seq[ValueReport], now: Long): ValueGrants = {
    sweepSometimes(now)
    processes(process) = now
    val gap = math.max(LeastGap, processes.size * LeaseTimes.PerReport)
    ValueGrants(gap, reports.map(answer(process, _, math.max(2 * gap, inUse * PerValue), now)))
  }

  private def answer(process: String, one: ValueReport, leastNanos: Long, now: Long) = {
    val lent = values.getOrElseUpdate(one.value, new Lent(new LeaseLedger(terms)))
    lent.usedNanos = now
    val before = lent.ledger.processes
    val grant = lent.ledger.report(s"$process/${one.gate}", one.report, now, leastNanos)
    inUse += lent.ledger.processes - before
    Option(grant)
  }

  /** True if a value's ledger would lend more if it were new. */
  def isInUse(now: Long): Boolean = values.valuesIterator.exists(!_.ledger.isLikeNew(now))

  /** True if nothing is known of any value. */
  def isForgotten(now: Long): Boolean = {
    sweep(now)
    values.isEmpty
  }

  private def sweepSometimes(now: Long): Unit =
    if (values.size >= 2 * math.max(sweptSize, LeastSwept) || now - sweptNanos >= SweepNanos) sweep(now)

  private def sweep(now: Long): Unit = {
    values.filterInPlace((_, lent) => !isOver(lent, now))
    processes.filterInPlace((_, heard) => now - heard < LeaseTimes.LeaseNanos)
    inUse = values.valuesIterator.map(_.ledger.processes).sum
    sweptNanos = now
    sweptSize = values.size
  }

  private def isOver(lent: Lent, now: Long) =
    lent.ledger.isLikeNew(now) && (!lent.ledger.hasLearned || now - lent.usedNanos >= KeepNanos)
}

private object ValueLedgers {
  private val LeastGap = TimeUnit.MILLISECONDS.toNanos(10)
  private val PerValue = TimeUnit.MICROSECONDS.toNanos(50)
  private val SweepNanos = TimeUnit.SECONDS.toNanos(10)
  private val KeepNanos = TimeUnit.MINUTES.toNanos(10)
  private final val LeastSwept = 64

  private final class Lent(val ledger: LeaseLedger) {
    var usedNanos = 0L
  }
}
