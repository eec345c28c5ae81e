package io.pillarbox.metered.budget

import java.util.concurrent.TimeUnit

import scala.collection.mutable

/**
 * Divides a budget over processes. One thread at a time.
 *
 * Guarantee: what processes may spend never comes to more than the budget, whatever messages are lost, late
 * or out of order, and whatever processes die. A process is charged with its ceiling, which it names in each
 * report and which only the answer to its last report raises. What the ceiling of a process that died leaves
 * over counts as spent. A unit whose amounts are known only after the call may be exceeded by as much as
 * calls under way use more than their estimates.
 *
 * Grants get smaller as the budget comes to its end, and a process that waits gives back what does not
 * suffice for one attempt: so several processes use it up. It is spent once what is left, with all that may
 * still come back, does not suffice for another attempt.
 */
private[pillarbox] final class BudgetAllocator(val terms: BudgetTerms) {
  import BudgetAllocator._

  private val units = 0 until terms.units
  private val spentBefore = mutable.HashMap.empty[String, BudgetSpent]
  private val holders = mutable.LinkedHashMap.empty[String, Holder]

  /** True if the last report was answered with more than its process has. */
  var hasGranted = false

  /**
   * Counts what an account has spent before, in the place of all that was counted so far. Processes of the
   * account that were heard of are gone.
   */
  def begin(account: String, spent: BudgetSpent): Unit = {
    holders.filterInPlace((_, holder) => holder.account != account)
    learn(account, spent)
  }

  /** Counts what an account has spent before, or others have, in the place of what was known of that. */
  def learn(account: String, spent: BudgetSpent): Unit = spentBefore(account) = spent

  def before(account: String): BudgetSpent = spentBefore.getOrElse(account, terms.nothing)

  /** The amounts that an account's processes have spent, or may, without what was spent before. */
  def own(account: String): BudgetSpent = BudgetSpent.sum(terms.units, of(account).map(_.charged))

  /** True if its processes have given back all that they did not spend. */
  def isIdle(account: String): Boolean = of(account).forall(holder => units.forall(holder.open(_) <= 0))

  private def of(account: String) = holders.valuesIterator.filter(_.account == account)

  /** The amounts that were spent, over all accounts. */
  def spent: BudgetSpent =
    BudgetSpent.sum(terms.units, spentBefore.valuesIterator ++ holders.valuesIterator.map(_.spent))

  /** The amounts that an account's processes have spent, or may spend without another grant. */
  def charged(account: String): BudgetSpent = BudgetSpent.sum(
    terms.units,
    spentBefore.get(account).iterator ++ of(account).map(_.charged)
  )

  /** Answers a report; null if a later one has overtaken it. */
  def report(account: String, process: String, report: BudgetReport, nowNanos: Long): BudgetGrant = {
    settleSilent(nowNanos)
    val holder = holders.getOrElseUpdate(process, new Holder(account, nowNanos))
    if (report.number <= holder.number) null
    else {
      holder.receive(report, nowNanos)
      val all = spent
      val estimates = units.map(terms.estimate(_, all))
      holder.charge = units.map { at =>
        math.max(report.ceiling(at), report.spent.amounts(at) + estimates(at) * report.underWay)
      }
      val asked = holder.charge
      if (!terms.hasFailed(all)) grant(holder, report, estimates, nowNanos)
      hasGranted = holder.charge != asked
      val failuresLeft = math.max(0L, terms.failuresLeft(all)) / (2 * live(nowNanos))
      BudgetGrant(over(report, all, estimates, nowNanos), holder.charge, all, failuresLeft)
    }
  }

  /** What a process that was not heard of for so long might spend is spent, until it says otherwise. */
  private def settleSilent(now: Long): Unit =
    holders.valuesIterator.foreach(holder => if (holder.isSilent(now)) holder.spent = holder.charged)

  private def live(now: Long): Int = holders.valuesIterator.count(_.isLive(now))

  private def free(at: Int): Double = terms.mostOf(at) -
    spentBefore.valuesIterator.map(_.amounts(at)).sum - holders.valuesIterator.map(_.charge(at)).sum

  private def grant(holder: Holder, report: BudgetReport, estimates: Seq[Double], now: Long): Unit = {
    val has = attemptsWithin(holder.open, estimates) - report.underWay
    val left = attemptsWithin(free, estimates)
    val most = math.max(1L, attemptsWithin(terms.mostOf, estimates) / GrantsABudget)
    val wanted = math.min(report.wanted, most) - math.max(0L, has)
    val part = math.min(wanted, math.max(1L, left / (2 * live(now))))
    if (part > 0 && left > 0) holder.charge = units.map(at => holder.charge(at) + part * estimates(at))
  }

  /** The number of attempts for which the amounts suffice, by their estimates. */
  private def attemptsWithin(amount: Int => Double, estimates: Seq[Double]): Long =
    units.foldLeft(Long.MaxValue)((least, at) =>
      math.min(least, BudgetTerms.attempts(amount(at), estimates(at)))
    )

  /** Finds what does not suffice. A process that waits has given back all that its attempts don't need. */
  private def over(report: BudgetReport, all: BudgetSpent, estimates: Seq[Double], now: Long): Int =
    if (terms.hasFailed(all)) terms.units
    else if (!report.isWaiting) Lasts
    else {
      val able = holders.valuesIterator.filter(_.isLive(now)).toSeq
      units.indexWhere(at => BudgetTerms.attempts(free(at) + able.map(_.open(at)).sum, estimates(at)) < 1)
    }

  private final class Holder(val account: String, private var reportedNanos: Long) {
    var number = 0L
    var spent: BudgetSpent = terms.nothing
    var charge: IndexedSeq[Double] = spent.amounts

    def receive(report: BudgetReport, now: Long): Unit = {
      number = report.number
      reportedNanos = now
      spent = report.spent
    }

    def isLive(now: Long): Boolean = now - reportedNanos < LiveNanos

    def isSilent(now: Long): Boolean = now - reportedNanos >= SilentNanos

    /** The amount that it has and may not need. */
    def open(at: Int): Double = math.max(0.0, charge(at) - spent.amounts(at))

    def charged: BudgetSpent = spent.copy(amounts = charge)
  }
}

private[pillarbox] object BudgetAllocator {

  /** The time after which what a process has, and is silent about, does not come back. */
  private val LiveNanos: Long = TimeUnit.SECONDS.toNanos(10)
  private val SilentNanos: Long = TimeUnit.HOURS.toNanos(1)
  private final val Lasts = -1

  /** A process has no more than this part of a budget in hand, so that little is lost with it. */
  private final val GrantsABudget = 100
}
