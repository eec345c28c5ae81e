package io.pillarbox.metered.budget

import io.pillarbox.metered.lease.{Grant, Report}

/**
 * The amounts that may be spent, over all processes together.
 *
 * @param most the most of each unit, "calls" for attempts that begin
 * @param failedRows the number of rows that may fail
 * @param failedShare the share of the rows that may fail, counted once there are a hundred
 */
private[pillarbox] final case class BudgetTerms(
    most: Seq[(String, Double)],
    failedRows: Option[Long] = None,
    failedShare: Option[Double] = None
) {
  import BudgetTerms._

  require(most.forall(_._2 >= 0) && failedShare.forall(share => share >= 0 && share < 1), s"$this")

  private val amounts = most.map(_._2).toIndexedSeq
  private val callsAt = most.indexWhere(_._1 == Calls)
  val nothing: BudgetSpent = BudgetSpent.none(units)

  /** The number of units; all sequences of amounts have this length. */
  def units: Int = amounts.size

  def unit(at: Int): String = most(at)._1

  def mostOf(at: Int): Double = amounts(at)

  /** True if each attempt uses just one, whatever it reports. */
  def isCalls(at: Int): Boolean = at == callsAt

  /**
   * Returns what an attempt is expected to use of a unit: the mean of what was reported, nothing if attempts
   * end well without a report. As long as nothing is known, a hundred of them use up the budget, so that no
   * more are under way.
   */
  def estimate(at: Int, spent: BudgetSpent): Double =
    if (isCalls(at)) 1.0
    else if (spent.reports(at) > 0) spent.reported(at) / spent.reports(at)
    else if (spent.rows > spent.failed) 0.0
    else amounts(at) / MostUnknown

  /** True if the rows that may fail are bounded. */
  def boundsFailed: Boolean = failedRows.isDefined || failedShare.isDefined

  /** True if more rows have failed than may. */
  def hasFailed(spent: BudgetSpent): Boolean = failuresLeft(spent) < 0

  /** The number of rows that may fail, one after the other, from now on; negative if too many have. */
  def failuresLeft(spent: BudgetSpent): Long = {
    val ofRows = failedRows.fold(Long.MaxValue)(_ - spent.failed)
    val ofShare = failedShare.fold(Long.MaxValue) { share =>
      val byShare = math.floor((share * spent.rows - spent.failed) / (1 - share)).toLong
      math.max(LeastRows - 1 - spent.rows, byShare)
    }
    math.min(ofRows, ofShare)
  }
}

private[pillarbox] object BudgetTerms {
  final val Calls = "calls"

  /** Rows before a share is taken of them. */
  private final val LeastRows = 100L

  /** Attempts under way before anything is known about their use. */
  private final val MostUnknown = 100

  /** Sums of amounts are off by less than this part of an estimate. */
  private final val Rounding = 1e-9

  /** The number of attempts for which an amount suffices. */
  def attempts(amount: Double, estimate: Double): Long =
    if (estimate > 0) math.floor(amount / estimate + Rounding).toLong
    else if (amount >= 0) Long.MaxValue
    else 0L
}

/**
 * The amounts that were spent.
 *
 * @param rows the rows that were decided by a call, failed ones included
 * @param amounts what counts as spent, by unit
 * @param reported what attempts have reported of it
 * @param reports the number of attempts that have
 */
private[pillarbox] final case class BudgetSpent(
    rows: Long,
    failed: Long,
    amounts: IndexedSeq[Double],
    reported: IndexedSeq[Double],
    reports: IndexedSeq[Long]
)

private[pillarbox] object BudgetSpent {

  /** The sum of two amounts; at most the largest double, so that it stays one that can be told. */
  def add(one: Double, other: Double): Double = math.min(one + other, Double.MaxValue)

  def none(units: Int): BudgetSpent = {
    val nothing = IndexedSeq.fill(units)(0.0)
    BudgetSpent(0, 0, nothing, nothing, IndexedSeq.fill(units)(0L))
  }

  def sum(units: Int, all: Iterator[BudgetSpent]): BudgetSpent = {
    var (rows, failed) = (0L, 0L)
    val (amounts, reported) = (new Array[Double](units), new Array[Double](units))
    val reports = new Array[Long](units)
    all.foreach { one =>
      rows += one.rows
      failed += one.failed
      (0 until units).foreach { at =>
        amounts(at) = add(amounts(at), one.amounts(at))
        reported(at) = add(reported(at), one.reported(at))
        reports(at) += one.reports(at)
      }
    }
    BudgetSpent(rows, failed, amounts.toIndexedSeq, reported.toIndexedSeq, reports.toIndexedSeq)
  }
}

/**
 * A report of a process on a budget.
 *
 * @param number its place, 1, 2, ... in the order in which reports are sent
 * @param wanted the number of attempts for which the process wants to have enough
 * @param isWaiting true if rows wait for it
 * @param underWay attempts that have been let begin and not ended
 * @param ceiling the amounts up to which the process may spend, and which it does not exceed by itself
 * @param spent what it has spent since it began
 */
private[pillarbox] final case class BudgetReport(
    override val number: Long,
    wanted: Long,
    isWaiting: Boolean,
    underWay: Long,
    ceiling: IndexedSeq[Double],
    spent: BudgetSpent
) extends Report

/**
 * The answer to a report. It counts if no other report was sent since.
 *
 * @param over the unit that does not suffice for another attempt, or the number of units if too many rows
 *   have failed; negative while the budget lasts
 * @param ceiling the amounts up to which the process may spend
 * @param spent what all processes have spent
 * @param failuresLeft the number of rows that may fail in this process before it has to ask
 */
private[pillarbox] final case class BudgetGrant(
    over: Int,
    ceiling: IndexedSeq[Double],
    spent: BudgetSpent,
    failuresLeft: Long
) extends Grant
