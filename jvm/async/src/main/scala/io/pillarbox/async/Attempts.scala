package io.pillarbox.async

import java.util

import scala.util.control.NonFatal

import io.pillarbox.api.{AsyncTimeoutException, ResultFuture}
import io.pillarbox.metered.journal.CallTicket
import io.pillarbox.metered.limit.{Permit, SharedPermit}

/** The last stage of a call: calls the function, which no other stage knows. Mailbox thread only. */
private[async] final class Attempts[IN, OUT](pipeline: CallPipeline[IN, OUT]) extends Stage[IN, OUT] {
  import pipeline.{deadlines, function, inbox, metrics, time}

  private type Attempt = CallAttempt[IN, OUT]

  override def enter(call: Call): Unit = call match {
    case group: CallGroup[IN, OUT] => beginAll(group)
    case _ if call.current ne null =>
      count(isRetry = false, rows = 1)
      begin(call, call.current): Unit
    case _ =>
      if (!call.hasTicket) count(call.attempts > 0, rows = 1)
      invoke(call, begin(call, new Attempt(inbox, call, call.nextAttempt, taken(call))))
  }

  /** Counts a call that is no poll. */
  private def count(isRetry: Boolean, rows: Int): Unit = {
    metrics.calls += 1
    metrics.calledRows += rows
    if (isRetry) metrics.retries += 1
  }

  /** Gives the function a call that it begins by itself, when it has room. */
  override def ahead(call: Call): Unit = {
    call.current = new Attempt(inbox, call, 1, null)
    invoke(call, call.current)
  }

  private def beginAll(group: CallGroup[IN, OUT]): Unit = {
    if (!group.hasTicket) count(group.members.stream.anyMatch(_.attempts > 0), group.members.size)
    val own = taken(group)
    val permit = if (own eq null) null else new SharedPermit(own, group.members.size)
    val inputs = new util.ArrayList[IN](group.members.size)
    val futures = new util.ArrayList[ResultFuture[OUT]](group.members.size)
    group.members.forEach { call =>
      call.at = this
      inputs.add(call.input)
      futures.add(begin(call, new Attempt(inbox, call, call.nextAttempt, permit, group))): Unit
    }
    try
      if (group.hasTicket) collect(group, inputs, futures)
      else function.asInstanceOf[BatchAsyncFunction[IN, OUT]].asyncInvokeBatch(inputs, futures)
    catch { case NonFatal(error) => futures.forEach(_.completeExceptionally(error)) }
  }

  private def collect(
      group: CallGroup[IN, OUT],
      inputs: util.List[IN],
      futures: util.List[ResultFuture[OUT]]
  ): Unit = {
    val tickets = new util.ArrayList[CallTicket](inputs.size)
    group.members.forEach(member => tickets.add(member.ticket): Unit)
    metrics.polls += 1
    function.asInstanceOf[TicketedFunction[IN, OUT]].collect(inputs, tickets, futures)
  }

  /** Takes the permit from the call; the attempt gives it back. */
  private def taken(call: Call): Permit = {
    val permit = call.permit
    call.permit = null
    permit
  }

  private def begin(call: Call, attempt: Attempt): Attempt = {
    val now = time.nanoTime
    attempt.startNanos = now
    call.current = attempt
    deadlines.begins(call, now)
    attempt
  }

  private def invoke(call: Call, attempt: Attempt): Unit =
    try function.asyncInvoke(call.input, attempt)
    catch { case NonFatal(error) => attempt.completeExceptionally(error) }

  /** Ends an attempt whose time is over. */
  override def due(call: Call): Unit = {
    val attempt = call.current
    val elapsedMs = (time.nanoTime - attempt.startNanos) / 1000000L
    val timeout = AsyncTimeoutException.attempt(attempt.attempt, elapsedMs)
    // An answer that came first is on its way, and decides.
    if (attempt.abandon(timeout)) {
      metrics.timeouts += 1
      tellCancelled(call, attempt)
      pipeline.settle(attempt)
    }
  }

  /**
   * Ends a call whose total time is over. The function decides what becomes of the call, through the future
   * of the attempt under way: so an answer that comes first wins, and one that comes later is dropped.
   * Between attempts it gets a fresh future.
   */
  def overdue(call: Call): Unit = {
    val isRunning = call.current ne null
    val attempt = if (isRunning) call.current else CallAttempt.standIn(inbox, call)
    if (!attempt.isDone) {
      metrics.timeouts += 1
      val number = if (call.share eq null) attempt.attempt else call.share.carrier.attempts
      attempt.overdue = AsyncTimeoutException.total(number, call.elapsedMs)
      try function.timeout(call.input, attempt)
      catch { case NonFatal(error) => attempt.completeExceptionally(error) }
      if (attempt.isDone) {
        attempt.isStandIn = true
        if (isRunning) tellCancelled(call, attempt)
      }
    }
  }

  /** Cancels the attempt under way, if there is one; false if it is answered. */
  def stop(call: Call): Boolean = {
    val attempt = call.current
    val stopped = (attempt eq null) || attempt.abandon()
    if (stopped && (attempt ne null)) tellCancelled(call, attempt)
    stopped
  }

  /** Cancels by the function; if that fails, the call is decided all the same. */
  private def tellCancelled(call: Call, attempt: Attempt): Unit =
    try function.cancel(call.input, attempt)
    catch { case NonFatal(error) => CallPipeline.log.warn("Could not cancel {}", attempt, error) }
}
