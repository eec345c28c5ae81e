package io.pillarbox.metered.budget

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.metered.lease.{Borrowed, Borrower, Grant, Report}
import io.pillarbox.metered.limit.LimitClock

/**
 * A process's part of a budget, for all tasks that spend it. Thread-safe; nothing here blocks.
 *
 * It asks the driver for more before it has used up what it has. While it has anything, or attempts are under
 * way, it reports several times a second; what it does not need goes back within a second. While the driver
 * can't be reached it spends what it has.
 *
 * @param name that of the budget's account
 * @param borrower takes its reports to the driver
 */
private[pillarbox] final class BudgetPart(
    override val name: String,
    val terms: BudgetTerms,
    clock: LimitClock,
    borrower: Borrower
) extends Borrowed {
  import BudgetPart._

  private val units = 0 until terms.units
  private val waiters = mutable.LinkedHashSet.empty[Runnable]
  private val own = new OwnSpending(terms)

  /** Those that wait for the driver to know of so many rows of this process. */
  private val settling = mutable.LinkedHashMap.empty[Runnable, Long]

  private var all = terms.nothing
  private var estimates = units.map(terms.estimate(_, all))
  private var ceiling = all.amounts
  private var failuresLeft = 0L
  private var failedKnown = 0L
  private var rowsKnown = 0L
  private var exceeded: BudgetExceeded = _
  private var underWay = 0L

  private var sent = 0L
  private var sentNanos = 0L
  private var applied = 0L
  private var isRefused = false

  /** True if a report is to be made as soon as the last one is answered, or at once. */
  private var isAsked = false
  private var isUrgent = false

  /** The number of changes that the driver has to know of, that the last report has told, and that it knows. */
  private var changes = 0L
  private var changesTold = 0L
  private var changesKnown = 0L

  private var isTicking = false
  private var tickedNanos = 0L
  private var quietTicks = 0
  private var taken = 0L
  private var wanted = LeastWanted
  private var isReleased = false

  /**
   * Lets an attempt begin, or not. If it has to wait, the waiter will be run once, on any thread, when it is
   * to ask again. The end of an attempt that may begin is to be told.
   *
   * @return null if it may begin, [[BudgetPart.Wait]], or a [[BudgetExceeded]] if none may begin any more
   */
  def take(waiter: Runnable): AnyRef = synchronized {
    isReleased = false
    val answer = takeOrWait(waiter)
    val needsMore = (answer eq Wait) || ((answer eq null) && left < wanted / 2)
    if (needsMore && !isRefused) ask()
    answer
  }

  private def takeOrWait(waiter: Runnable): AnyRef =
    if (exceeded ne null) exceeded
    else if (mayBegin) {
      underWay += 1
      taken += 1
      changed()
      null
    } else {
      waiters += waiter
      startTicking()
      Wait
    }

  private def changed(): Unit = {
    changes += 1
    startTicking()
  }

  private def startTicking(): Unit = if (!isTicking) {
    isTicking = true
    quietTicks = 0
    tickedNanos = clock.nanoTime
    borrower.due(this, TickNanos)
  }

  /** Rows that failed and that the driver does not know of might be too many. */
  private def mayBegin: Boolean = own.failed - failedKnown <= failuresLeft && left >= 1

  /** The number of attempts for which there is enough, by their estimates. */
  private def left: Long = units.foldLeft(Long.MaxValue) { (least, at) =>
    val amount = ceiling(at) - own.amounts(at) - estimates(at) * underWay
    math.min(least, BudgetTerms.attempts(amount, estimates(at)))
  }

  /**
   * Tells whether too many rows have failed, with all that have ended here before the waiter asked first: for
   * whoever ends without another attempt. If the driver does not know of them yet, the waiter will be run, on
   * any thread, when it is to ask again.
   *
   * @return null if they may have failed, [[BudgetPart.Wait]], or a [[BudgetExceeded]]
   */
  def settle(waiter: Runnable): AnyRef = synchronized {
    val rows = settling.getOrElse(waiter, own.rows)
    if (!terms.boundsFailed || terms.hasFailed(all) || rows <= rowsKnown) {
      settling -= waiter
      if (terms.hasFailed(all)) new BudgetExceeded(terms, terms.units, all) else null
    } else {
      settling(waiter) = rows
      startTicking()
      ask()
      Wait
    }
  }

  /** Takes a waiter out that need not ask again. */
  def forget(waiter: Runnable): Unit = synchronized {
    waiters -= waiter
    settling -= waiter
  }: Unit

  /** Tells that an attempt that was let through did not begin. */
  def notBegun(): Unit = afterwards(underWay -= 1)

  /**
   * Tells that an attempt has ended.
   *
   * @param used what it has reported of a unit, 0 for nothing
   * @param isKnown false if the service may have used more than was reported
   */
  def ended(used: Int => Double, isKnown: Boolean): Unit = afterwards {
    underWay -= 1
    own.add(used, at => if (isKnown || all.reports(at) == 0) 0.0 else estimates(at))
  }

  /** Tells what was used by an attempt that has ended before, as soon as that is known. */
  def used(used: Int => Double): Unit = afterwards(own.use(used))

  /** Tells that a row that was called for has its answer, or has failed. */
  def rowEnded(isFailed: Boolean): Unit = afterwards(own.row(isFailed))

  private def afterwards(change: => Unit): Unit = {
    val woken = synchronized {
      change
      changed()
      val woken = wakeIfAny()
      if (waiters.nonEmpty) ask()
      woken
    }
    woken.foreach(_.run())
  }

  private def wakeIfAny(): Seq[Runnable] =
    if (waiters.isEmpty || ((exceeded eq null) && !mayBegin)) Nil
    else {
      val woken = waiters.toSeq
      waiters.clear()
      woken
    }

  /** Gives back what is not needed, at once. The part may be used again, and then asks anew if anything is left. */
  def release(): Unit = synchronized {
    isReleased = true
    if (!terms.hasFailed(all)) exceeded = null
    if (isTicking) askAtOnce()
  }

  /** Has a report made, unless one is under way. */
  private def ask(): Unit = if (sent == applied && !isAsked) {
    isAsked = true
    borrower.due(this, 0L)
  }

  /** Has a report made, after which the answer to an earlier one does not count. */
  private def askAtOnce(): Unit = {
    isUrgent = true
    borrower.due(this, 0L)
  }

  /** Its answer may wait for what is written. */
  override def isAlone: Boolean = true

  override def report(): BudgetReport = synchronized {
    val now = clock.nanoTime
    val isTick = isTicking && now - tickedNanos >= TickNanos
    if (isTick) tick(now)
    if (isTicking) borrower.due(this, tickedNanos + TickNanos - now)
    val isUnderWay = sent != applied && now - sentNanos < AnswerNanos
    val makes = isUrgent || ((isAsked || (isTick && isTicking)) && !isUnderWay)
    isAsked = false
    isUrgent = false
    if (makes) nextReport(now) else null
  }

  private def tick(now: Long): Unit = {
    tickedNanos = now
    quietTicks = if (taken == 0 && waiters.isEmpty) quietTicks + 1 else 0
    wanted = math.max(LeastWanted, math.max(2 * taken, wanted / 2))
    taken = 0
    isRefused = false
    isTicking = !isDone
  }

  /**
   * True if the driver has back what it had lent, and knows the rest; or can't be reached. Until the last report
   * is answered an answer that was lost may have lent something.
   */
  private def isDone: Boolean = isQuiet && settling.isEmpty && underWay == 0 &&
    ((sent == applied && changesKnown == changes && units.forall(at => ceiling(at) <= own.amounts(at))) ||
      quietTicks > MostQuietTicks)

  private def isQuiet: Boolean = waiters.isEmpty && (isReleased || quietTicks > 1)

  private def nextReport(now: Long): BudgetReport = {
    sent += 1
    sentNanos = now
    val kept = if (isQuiet || waiters.nonEmpty) 0L else 2 * wanted
    val lower = units.map(at => math.min(ceiling(at), own.amounts(at) + estimates(at) * (underWay + kept)))
    if (lower != ceiling) changes += 1
    ceiling = lower
    changesTold = changes
    val asked = if (isQuiet || (exceeded ne null)) 0L else wanted
    BudgetReport(sent, asked, waiters.nonEmpty, underWay, ceiling, own.spent)
  }

  override def granted(report: Report, answer: Grant, sentNanos: Long): Unit = {
    val woken = synchronized {
      if (report.number == sent && applied < sent) {
        applied = sent
        changesKnown = changesTold
        learn(report.asInstanceOf[BudgetReport], answer.asInstanceOf[BudgetGrant])
        isRefused = (exceeded eq null) && !mayBegin
        if (waiters.nonEmpty && !isRefused) wanted = math.min(2 * wanted, MostWanted)
        val (settled, unknown) = settling.partition { case (_, rows) => rows <= rowsKnown }
        if (unknown.nonEmpty) askAtOnce()
        wakeIfAny() ++ settled.keys
      } else Nil
    }
    woken.foreach(_.run())
  }

  private def learn(report: BudgetReport, grant: BudgetGrant): Unit = {
    all = grant.spent
    estimates = units.map(terms.estimate(_, all))
    ceiling = grant.ceiling
    failuresLeft = grant.failuresLeft
    failedKnown = report.spent.failed
    rowsKnown = report.spent.rows
    if (grant.over >= 0 && (exceeded eq null)) exceeded = new BudgetExceeded(terms, grant.over, all)
  }
}

private[pillarbox] object BudgetPart {

  /** The answer to an attempt that has to wait. */
  val Wait = new Object

  private val TickNanos = TimeUnit.MILLISECONDS.toNanos(200)

  /** The time for which an answer is waited for: another report makes it void. */
  private val AnswerNanos = TimeUnit.SECONDS.toNanos(2)
  private final val MostQuietTicks = 50
  private final val LeastWanted = 16L
  private final val MostWanted = 1L << 20

  /** What the attempts of this process have spent since it began. */
  private final class OwnSpending(terms: BudgetTerms) {
    var rows = 0L
    var failed = 0L
    val amounts = new Array[Double](terms.units)
    private val reported = new Array[Double](terms.units)
    private val reports = new Array[Long](terms.units)

    def row(isFailed: Boolean): Unit = {
      rows += 1
      if (isFailed) failed += 1
    }

    def add(used: Int => Double, unreported: Int => Double): Unit = amounts.indices.foreach { at =>
      val use = if (terms.isCalls(at)) 1.0 else used(at)
      if (use > 0) {
        reported(at) = BudgetSpent.add(reported(at), use)
        reports(at) += 1
      }
      amounts(at) = BudgetSpent.add(amounts(at), if (use > 0) use else unreported(at))
    }

    /** Adds what was reported, and no call. */
    def use(used: Int => Double): Unit = amounts.indices.foreach { at =>
      val use = if (terms.isCalls(at)) 0.0 else used(at)
      amounts(at) = BudgetSpent.add(amounts(at), use)
      reported(at) = BudgetSpent.add(reported(at), use)
    }

    def spent: BudgetSpent =
      BudgetSpent(rows, failed, amounts.toIndexedSeq, reported.toIndexedSeq, reports.toIndexedSeq)
  }
}
