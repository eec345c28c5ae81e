package io.pillarbox.metered.budget

import io.pillarbox.api.NotRetryable

/**
 * The end of a budget.
 *
 * @param over the unit that does not suffice for another attempt; the number of units if too many rows failed
 * @param spent what was spent when it was found
 */
private[pillarbox] final class BudgetExceeded(val terms: BudgetTerms, val over: Int, val spent: BudgetSpent) {

  def isFailedRows: Boolean = over == terms.units

  /** True if calls must not go on since nobody would know what they have spent. */
  def isNotKept: Boolean = over == BudgetExceeded.NotKept
}

private[pillarbox] object BudgetExceeded {

  /** In the place of a unit in a grant: what was spent can't be written down. */
  final val NotKept = Int.MaxValue
}

/** The failure of a call that was not made, since a budget is spent. */
private[pillarbox] final class BudgetExceededException(val exceeded: BudgetExceeded)
    extends RuntimeException("The budget is spent")
    with NotRetryable
