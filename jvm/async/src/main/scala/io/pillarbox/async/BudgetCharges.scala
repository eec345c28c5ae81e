package io.pillarbox.async

import io.pillarbox.api.AsyncTimeoutException
import io.pillarbox.metered.budget.{BudgetExceeded, BudgetExceededException, BudgetPart}
import io.pillarbox.metered.usage.Usage

/** Charges a budget with each attempt, and fails calls once it is spent. Mailbox thread only. */
private[async] final class BudgetCharges[IN, OUT](pipeline: CallPipeline[IN, OUT], part: BudgetPart) {
  private type Call = InFlightElement[IN, OUT]
  private type Attempt = CallAttempt[IN, OUT]

  /** The budget's units among the operator's; negative for one that is counted without reports. */
  private val units =
    (0 until part.terms.units).map(at => pipeline.options.units.names.indexOf(part.terms.unit(at)))

  /** What an attempt is charged with, until it has ended; over all polls if it was given a ticket. */
  private val charge: Holding[IN, OUT] = call => settleCharge(call, call.current, isKnown = false)

  /** Held for a ticket of an earlier run, which is charged with nothing but what its answer reports. */
  private val report: Holding[IN, OUT] = call => settleReport(call, call.current)

  /**
   * Charges the call, if that was not done. One that the budget does not suffice for is answered with that.
   *
   * @param waiter will be run when a call that has to wait may ask again
   * @return false if it is answered, or has to wait
   */
  def take(call: Call, waiter: Runnable): Boolean = call.holds(charge) || call.holds(report) || {
    if (call.hasTicket) {
      call.hold(report)
      true
    } else
      part.take(waiter) match {
        case exceeded: BudgetExceeded =>
          CallAttempt
            .standIn(pipeline.inbox, call)
            .completeExceptionally(new BudgetExceededException(exceeded))
          false
        case answer =>
          if (answer ne BudgetPart.Wait) call.hold(charge)
          answer ne BudgetPart.Wait
      }
  }

  /** Takes the charge of a call back that does not begin now. */
  def giveBack(call: Call): Unit = if (!call.hasTicket && call.drop(charge)) part.notBegun()

  /** Settles the charge of an attempt that has ended. */
  def ended(call: Call, attempt: Attempt): Unit = {
    val error = if (attempt.isFailure) attempt.error else null
    // What is pending is collected by another run, which counts what it has used.
    val isPending = error.isInstanceOf[PendingException]
    val isKnown = if (attempt.isStandIn) isPending else !error.isInstanceOf[AsyncTimeoutException]
    if (call.drop(charge)) settleCharge(call, attempt, isKnown)
    else if (call.drop(report)) settleReport(call, attempt)
  }

  /** @param isKnown false if the service may have used more than was reported */
  private def settleCharge(call: Call, attempt: Attempt, isKnown: Boolean): Unit = {
    val hasBegun = call.hasTicket || ((attempt ne null) && attempt.hasBegun)
    if (hasBegun) part.ended(used(call, attempt, _), isKnown) else part.notBegun()
    call.carried = null
  }

  private def settleReport(call: Call, attempt: Attempt): Unit = {
    part.used(used(call, attempt, _))
    call.carried = null
  }

  private def used(call: Call, attempt: Attempt, at: Int): Double =
    if (units(at) < 0) 0.0
    else amount(if (attempt eq null) null else attempt.usage, at) + amount(call.carried, at)

  private def amount(usage: Usage, at: Int): Double = if (usage eq null) 0.0 else usage(units(at))

  /** Takes a waiter out that has no call any more. */
  def forget(waiter: Runnable): Unit = part.forget(waiter)
}
