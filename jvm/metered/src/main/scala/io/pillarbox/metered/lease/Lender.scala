package io.pillarbox.metered.lease

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.metered.limit.LimitTerms

/**
 * The driver's limits, of each name and value one [[LimitAllocator]]. Thread-safe.
 *
 * It tells processes how often to report: all of them together send at most 2,000 messages a second, and tell
 * of values of keys so often that it gets at most 20,000 reports a second of those that are in use. A limit
 * that is not in use is forgotten as soon as a new one would lend just as much, or ten minutes after its last report
 * if something was learned.
 *
 * @param nanoTime from an arbitrary origin
 */
private[pillarbox] final class Lender(nanoTime: () => Long) {
  import Lender._

  private val limits = mutable.HashMap.empty[(LimitKey, LimitTerms), Lent]
  private val processes = mutable.HashMap.empty[String, Long]
  private var valuesInUse = 0
  private var sweptNanos = nanoTime()
  private var sweptSize = 0

  /** Answers the reports of a message on limits. */
  def report(process: String, sent: Seq[Sent]): Grants = synchronized {
    val now = nanoTime()
    val gap = gapOf(process, sent.exists(of(_).value.isDefined), now)
    sweepSometimes(now)
    Grants(gap, sent.map(one => answer(process, one, of(one), gap, now)))
  }

  private def of(sent: Sent) = sent.report.asInstanceOf[LimitReport]

  private def gapOf(process: String, hasValues: Boolean, now: Long) = {
    processes(process) = now
    math.max(if (hasValues) GapOfValues else 0L, LeaseTimes.gapNanos(processes.size))
  }

  private def answer(process: String, sent: Sent, report: LimitReport, gap: Long, now: Long) = {
    val key = (LimitKey(sent.name, report.value), report.terms)
    val lent = limits.getOrElseUpdate(key, new Lent(new LimitAllocator(report.terms)))
    lent.usedNanos = now
    val before = lent.limit.processes
    // What is lent must last until the next message of the process.
    val least = math.max(2 * gap, if (report.value.isEmpty) 0L else valuesInUse * PerValue)
    val grant = lent.limit.report(s"$process/${sent.part}", report, now, least)
    if (report.value.isDefined) valuesInUse += lent.limit.processes - before
    Option(grant)
  }

  /** True if a limit of the name would lend more if it were new. */
  def isInUse(name: String): Boolean = synchronized {
    val now = nanoTime()
    limits.exists { case ((key, _), lent) => key.name == name && !lent.limit.isLikeNew(now) }
  }

  /** The number of limits that are known, of each value one. */
  def size: Int = synchronized {
    sweep(nanoTime())
    limits.size
  }

  private[lease] def known(name: String): Seq[LimitAllocator] =
    limits.toSeq.collect { case ((key, _), lent) if key.name == name => lent.limit }

  private def sweepSometimes(now: Long): Unit =
    if (limits.size >= 2 * math.max(sweptSize, LeastSwept) || now - sweptNanos >= SweepNanos) sweep(now)

  private def sweep(now: Long): Unit = {
    limits.filterInPlace((_, lent) => !isOver(lent, now))
    processes.filterInPlace((_, heard) => now - heard < LeaseTimes.LeaseNanos)
    valuesInUse = limits.iterator.collect {
      case ((key, _), lent) if key.value.isDefined => lent.limit.processes
    }.sum
    sweptNanos = now
    sweptSize = limits.size
  }

  private def isOver(lent: Lent, now: Long) =
    lent.limit.isLikeNew(now) && (!lent.limit.hasLearned || now - lent.usedNanos >= KeepNanos)
}

private object Lender {
  private val GapOfValues = TimeUnit.MILLISECONDS.toNanos(10)
  private val PerValue = TimeUnit.MICROSECONDS.toNanos(50)
  private val SweepNanos = TimeUnit.SECONDS.toNanos(10)
  private val KeepNanos = TimeUnit.MINUTES.toNanos(10)
  private final val LeastSwept = 64

  private final class Lent(val limit: LimitAllocator) {
    var usedNanos = 0L
  }
}
