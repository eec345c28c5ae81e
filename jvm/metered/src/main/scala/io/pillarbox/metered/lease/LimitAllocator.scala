package io.pillarbox.metered.lease

import scala.collection.mutable

import io.pillarbox.metered.limit.{AdaptiveLimit, LimitTerms}

/**
 * Divides the calls that one limit allows over processes. One thread at a time.
 *
 * Guarantee: the permits that processes believe to have never come to more than the limit, whatever messages
 * are lost, late or out of order, as long as all clocks run equally fast. A process is charged with the
 * largest of what it has said to have and of all answers that may still be in force there, until it says
 * otherwise or its lease ends. Only where the limit itself falls, more may be under way for a while.
 *
 * Processes that wait get equal parts of what others don't use; the remainder goes round.
 */
private[pillarbox] final class LimitAllocator(terms: LimitTerms) {
  private val holders = mutable.LinkedHashMap.empty[String, Holder]
  private val limit = if (terms.adaptive) new AdaptiveLimit(terms.calls) else null
  private val amounts = if (terms.hasRate) new AmountAllocator(terms) else null
  private var isPaused = false
  private var pausedUntil = 0L

  /** The number of attempts of all processes that may be under way. */
  def limitNow: Int =
    if (limit != null) limit.now else if (terms.calls > 0) terms.calls else Int.MaxValue

  /** The number of permits that processes may have. */
  def charged: Int = holders.valuesIterator.map(_.charge).sum

  /** The number of processes that have a lease, or have had one of late. */
  def processes: Int = holders.size

  /** True if it knows of the service, or of calls, what a new one would not. */
  def hasLearned: Boolean =
    (limit != null && limit.now < terms.calls) || (amounts != null && amounts.knowsMean)

  /** True if no process has a lease. */
  def isIdle(nowNanos: Long): Boolean = {
    forgetEnded(nowNanos)
    holders.isEmpty
  }

  /** True if a new one would lend just as much, but for what this one has learned of the service. */
  def isLikeNew(nowNanos: Long): Boolean =
    isIdle(nowNanos) && (amounts == null || amounts.isFull(nowNanos)) &&
      !(isPaused && nowNanos - pausedUntil < 0)

  /**
   * Answers a report; null if a later one has overtaken it.
   *
   * @param leastNanos the shortest time after which the process is to report again
   */
  def report(process: String, report: LimitReport, nowNanos: Long, leastNanos: Long = 0L): LimitGrant = {
    forgetEnded(nowNanos)
    val holder = holders.getOrElseUpdate(process, new Holder)
    if (report.number <= holder.number) null
    else {
      holder.receive(report)
      if (amounts != null) amounts.receive(process, report, nowNanos)
      learn(report, nowNanos)
      if (isPaused && nowNanos - pausedUntil >= 0) isPaused = false
      val least = math.max(leastNanos, LeaseTimes.gapNanos(holders.size))
      val reportNanos = math.max(LeaseTimes.reportNanos(terms), least)
      holder.has(nowNanos + LeaseTimes.leaseNanosOf(reportNanos))
      val grant = LimitGrant(
        if (terms.calls > 0) permitsFor(process, holder, nowNanos) else Int.MaxValue,
        if (isPaused) pausedUntil - nowNanos else 0L,
        reportNanos,
        if (amounts == null) AmountGrant.NoRate
        else amounts.grant(process, report.number, reportNanos, isPaused, nowNanos)
      )
      if (terms.calls > 0) holder.lend(report.number, grant.permits)
      val hasNone = if (terms.calls > 0) grant.permits == 0 && holder.charge == 0 else report.leaves
      if (hasNone && !report.isWaiting) holders.remove(process)
      grant
    }
  }

  private def forgetEnded(now: Long): Unit =
    holders.filterInPlace((_, holder) => now - holder.leaseEnd < 0): Unit

  private def learn(report: LimitReport, now: Long): Unit = {
    if (limit != null) {
      val underWay = holders.valuesIterator.map(_.inUse).sum + report.answered
      (0 until report.answered).foreach(_ => limit.answered(underWay))
      if (report.overloadNanos >= 0) limit.overloaded(now - report.overloadNanos, now)
    }
    val until = now + report.pauseNanos
    if (report.pauseNanos > 0 && (!isPaused || until - pausedUntil > 0)) {
      isPaused = true
      pausedUntil = until
    }
  }

  private def permitsFor(process: String, holder: Holder, now: Long): Int = {
    val free = math.max(0, limitNow - (charged - holder.charge))
    val part = partOf(process, now)
    // Each keeps its permits as long as no process waits.
    val wanted = if (holders.valuesIterator.exists(_.isWaiting)) part else math.max(part, holder.charge)
    math.min(free, wanted)
  }

  /**
   * Its part of the limit: processes that don't wait need what they use, and the others share the rest
   * (max-min fairness). Of the remainder, some get one more each, others every second.
   */
  private def partOf(process: String, now: Long): Int = {
    var rest = limitNow
    var open = holders.toSeq
    var parts = Map.empty[String, Int]
    var settled = true
    while (settled && open.nonEmpty) {
      val (modest, others) = open.partition { case (_, h) => !h.isWaiting && h.inUse <= rest / open.size }
      modest.foreach { case (name, h) => parts += name -> h.inUse }
      rest -= modest.map(_._2.inUse).sum
      open = others
      settled = modest.nonEmpty
    }
    if (open.nonEmpty) {
      val turn = math.floorMod(now / LimitAllocator.TurnNanos, open.size.toLong).toInt
      val (each, left) = (rest / open.size, rest % open.size)
      (open.drop(turn) ++ open.take(turn)).zipWithIndex.foreach { case ((name, _), i) =>
        parts += name -> (each + (if (i < left) 1 else 0))
      }
    }
    parts(process)
  }

  private final class Holder {
    var number = 0L
    private var hasLease = false
    private var end = 0L
    var inUse = 0
    var isWaiting = false
    private var holds = 0
    private val lent = mutable.ArrayBuffer.empty[(Long, Int)]

    /** The end of the longest lease that it may have. */
    def leaseEnd: Long = end

    def has(until: Long): Unit = if (!hasLease || until - end > 0) {
      hasLease = true
      end = until
    }

    def receive(report: LimitReport): Unit = {
      number = report.number
      inUse = report.inUse
      isWaiting = report.isWaiting
      holds = math.max(report.holds, report.inUse)
      lent.filterInPlace(_._1 > report.applied): Unit
    }

    def lend(number: Long, permits: Int): Unit = lent += ((number, permits))

    def charge: Int = lent.foldLeft(holds)((most, grant) => math.max(most, grant._2))
  }
}

private object LimitAllocator {
  private final val TurnNanos = 1000000000L
}
