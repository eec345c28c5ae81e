package io.pillarbox.async

import java.util

import scala.util.control.NonFatal

import io.pillarbox.mailbox.MailboxExecutor

/**
 * The queues of calls at their limits: one, or, if a limit has a key, one for each of its values, which is
 * forgotten with its last call. Polls have their own, since calls may wait for the ends of those that are
 * polled for. Mailbox thread only.
 *
 * @param isLimited false if calls need no permits here
 * @param known answers a call of a value without one, since the answer has come while it waited
 * @param granted takes a queue for whose first call a permit has come, in a mail
 */
private[async] final class LimitQueues[IN, OUT](
    pipeline: CallPipeline[IN, OUT],
    isLimited: Boolean,
    known: InFlightElement[IN, OUT] => Boolean,
    val granted: LimitQueue[IN, OUT] => Unit
) {
  private type Call = InFlightElement[IN, OUT]
  private type Queue = LimitQueue[IN, OUT]

  private val options = pipeline.options
  private val values = if (isLimited) options.valueLimiters.orNull else null
  private val charging = options.charges.orNull
  private val limiter = if (isLimited) options.limiter else null
  private val common = new Queue(this, limiter, isFirst = false, _ => ())
  private val polls = new Queue(this, limiter, isFirst = true, _ => ())
  private val ofValues = new util.HashMap[AnyRef, Queue]
  private var waiting = 0

  /** What the call is charged with that was asked for last; null if limits count calls alone. */
  var charges: Array[Double] = _

  /** True if some limit has a key. */
  def areOfValues: Boolean = values ne null

  def executor: MailboxExecutor = pipeline.executor

  def queueOf(call: Call): Queue =
    if (values ne null) ofValues.computeIfAbsent(values.valueOf(call.input), open(_))
    else if (call.hasTicket) polls
    else common

  private def open(value: AnyRef): Queue = {
    val held = values.open(value)
    new Queue(
      this,
      held.limiter,
      isFirst = false,
      queue => {
        ofValues.remove(value): Unit
        queue.close()
        held.close()
      }
    )
  }

  def isKnown(call: Call): Boolean = (values ne null) && known(call)

  /** Notes what the call is to be charged with; false if it can't be, and is answered with the reason. */
  def charge(call: Call): Boolean = (charging eq null) || {
    val problem = problemWith(call)
    (problem eq null) || chargesPart(call, problem)
  }

  /** Returns why the call can't be charged, or null. */
  private def problemWith(call: Call): Throwable =
    try {
      // A poll is a call, and what it collects was used before.
      charges = charging(if (call.hasTicket) util.Collections.emptyList[IN]() else inputsOf(call))
      null
    } catch { case NonFatal(error) => error }

  /** Takes out the members that can't be charged by themselves; all, if only the sum can't be. */
  private def chargesPart(call: Call, problem: Throwable): Boolean = call match {
    case group: CallGroup[IN, OUT] if group.members.removeIf(isRefused(_)) =>
      !group.members.isEmpty && charge(group)
    case _ =>
      call.each(refuse(_, problem))
      false
  }

  private def isRefused(one: Call): Boolean = {
    val problem = problemWith(one)
    if (problem ne null) refuse(one, problem)
    problem ne null
  }

  private def refuse(one: Call, problem: Throwable): Unit =
    CallAttempt.standIn(pipeline.inbox, one).completeExceptionally(problem)

  private def inputsOf(call: Call): util.List[IN] = {
    val inputs = new util.ArrayList[IN]
    call.each(one => inputs.add(one.input): Unit)
    inputs
  }

  /** Tells that queues come to the limiter, or leave it. */
  def waits(change: Int): Unit = {
    waiting += change
    if (waiting > 0) pipeline.metrics.limitWait.markStart() else pipeline.metrics.limitWait.markEnd()
  }

  def close(): Unit = {
    common.close()
    polls.close()
    ofValues.values.forEach(_.close())
  }
}
