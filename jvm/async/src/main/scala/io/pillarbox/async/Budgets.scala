package io.pillarbox.async

import java.util
import java.util.concurrent.RejectedExecutionException

import io.pillarbox.api.AsyncTimeoutException
import io.pillarbox.metered.budget.{BudgetExceeded, BudgetExceededException, BudgetPart}
import io.pillarbox.metered.usage.Usage

/**
 * Charges a budget with each attempt, and fails calls once it is spent. Calls wait here, in order, while the
 * budget's ledger is asked. Mailbox thread only.
 */
private[async] final class Budgets[IN, OUT](way: CallWay[IN, OUT], part: BudgetPart) extends Stage[IN, OUT] {
  private val line = new util.ArrayDeque[InFlightElement[IN, OUT]]

  /** The budget's units among the operator's; negative for one that is counted without reports. */
  private val units =
    (0 until part.terms.units).map(at => way.options.units.names.indexOf(part.terms.unit(at)))

  /** Runs on any thread. */
  private val waiter: Runnable = () =>
    try way.executor.execute(() => advance(), "an async call asks its budget again")
    catch { case _: RejectedExecutionException => () }

  /** What an earlier run has submitted is charged with nothing but what its answer reports. */
  override def enter(call: Call): Unit =
    if (call.hasTicket) goOn(call)
    else if (dropGone()) waits(call)
    else {
      val answer = part.take(waiter)
      if (answer eq BudgetPart.Wait) waits(call) else decide(call, answer)
    }

  private def waits(call: Call): Unit = {
    line.addLast(call)
    way.place.idles()
  }

  /** Takes the last call out that waits here; null if none does. */
  def pollLast(): Call = {
    while (!line.isEmpty && !line.peekLast().isWanted) line.pollLast()
    line.pollLast()
  }

  private def decide(call: Call, answer: AnyRef): Unit = answer match {
    case exceeded: BudgetExceeded =>
      CallAttempt.standIn(way.inbox, call).completeExceptionally(new BudgetExceededException(exceeded))
    case _ =>
      call.isCharged = true
      goOn(call)
  }

  private def advance(): Unit = {
    var isWaiting = false
    while (!isWaiting && dropGone()) {
      val answer = part.take(waiter)
      isWaiting = answer eq BudgetPart.Wait
      if (!isWaiting) decide(line.pollFirst(), answer)
    }
  }

  /** Drops calls from the head that are over; true if a call is left. */
  private def dropGone(): Boolean = {
    while (!line.isEmpty && !line.peekFirst().isWanted) line.pollFirst()
    !line.isEmpty
  }

  override def ended(call: Call, attempt: CallAttempt[IN, OUT]): Boolean = {
    val isKnown = if (attempt.isStandIn) isPending(attempt) else !isTimeout(attempt)
    settle(call, attempt, isKnown)
    true
  }

  /** True if its answer is collected by another run, which counts what it has used. */
  private def isPending(attempt: CallAttempt[IN, OUT]) =
    attempt.isFailure && attempt.error.isInstanceOf[PendingException]

  private def isTimeout(attempt: CallAttempt[IN, OUT]) =
    attempt.isFailure && attempt.error.isInstanceOf[AsyncTimeoutException]

  /** An attempt whose end was not told was cancelled. */
  override def left(call: Call): Unit = if (call.isCharged) settle(call, call.current, isKnown = false)

  private def settle(call: Call, attempt: CallAttempt[IN, OUT], isKnown: Boolean): Unit = {
    val hasBegun = call.hasTicket || ((attempt ne null) && attempt.hasBegun)
    if (call.isCharged) {
      call.isCharged = false
      if (hasBegun) part.ended(used(call, attempt, _), isKnown) else part.notBegun()
    } else if ((attempt ne null) && attempt.isPoll) part.used(used(call, attempt, _))
    call.carried = null
  }

  private def used(call: Call, attempt: CallAttempt[IN, OUT], at: Int): Double =
    if (units(at) < 0) 0.0
    else amount(if (attempt eq null) null else attempt.usage, at) + amount(call.carried, at)

  private def amount(usage: Usage, at: Int): Double = if (usage eq null) 0.0 else usage(units(at))

  override def withdraw(call: Call): Unit = if (!dropGone()) part.forget(waiter)

  override def inputPauses(): Boolean = line.isEmpty

  override def close(): Unit = {
    line.clear()
    part.forget(waiter)
  }
}
