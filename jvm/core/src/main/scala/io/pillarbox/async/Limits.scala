package io.pillarbox.async

import java.util
import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.atomic.AtomicInteger

import scala.util.control.NonFatal

import io.pillarbox.async.gate.{CallWaiter, Permit}

/**
 * Lets calls wait for a permit of a gate, in order. It has one waiter at the gate however many calls wait,
 * and none if none does. Mailbox thread only, except the waiter, which runs on any thread.
 */
private[async] final class Limits[IN, OUT](way: CallWay[IN, OUT]) extends Stage[IN, OUT] {
  import Limits._

  private val gate = way.options.gate
  private val charges = way.options.charges.orNull
  private val line = new util.ArrayDeque[InFlightElement[IN, OUT]]
  private val ticket = new Ticket

  override def enter(call: Call): Unit = if (isCharged(call)) {
    if (ticket.get == Idle && ticket.acquire(call)) start(call)
    else {
      line.addLast(call)
      way.metrics.limitWait.markStart()
    }
  }

  /** Says what the call is to be charged with. One that can't be is answered with the reason. */
  private def isCharged(call: Call): Boolean = (charges eq null) || {
    val problem = charge(call)
    (problem eq null) || isChargedInPart(call, problem)
  }

  /** Returns why the call can't be charged, or null. */
  private def charge(call: Call): Throwable =
    try {
      // A poll is a call, and what it collects was used before.
      call.charges = charges(if (call.hasTicket) util.Collections.emptyList[IN]() else inputsOf(call))
      null
    } catch { case NonFatal(error) => error }

  /** Takes out the members that can't be charged by themselves; all, if only the sum can't be. */
  private def isChargedInPart(call: Call, problem: Throwable): Boolean = call match {
    case group: CallGroup[IN, OUT] if group.members.removeIf(isRefused(_)) =>
      !group.members.isEmpty && isCharged(group)
    case _ =>
      membersOf(call).forEach(refuse(_, problem))
      false
  }

  private def isRefused(one: Call): Boolean = {
    val problem = charge(one)
    if (problem ne null) refuse(one, problem)
    problem ne null
  }

  private def refuse(one: Call, problem: Throwable): Unit =
    CallAttempt.standIn(way.inbox, one).completeExceptionally(problem)

  private def inputsOf(call: Call): util.List[IN] = {
    val inputs = new util.ArrayList[IN]
    membersOf(call).forEach(one => inputs.add(one.input): Unit)
    inputs
  }

  private def membersOf(call: Call): util.List[Call] = call match {
    case group: CallGroup[IN, OUT] => group.members
    case one => util.Collections.singletonList(one)
  }

  private def start(call: Call): Unit = {
    call.permit = ticket.taken()
    goOn(call)
  }

  /** Leaves the queue of the gate with the last wanted call, so that no permit is spent on nothing. */
  override def withdraw(call: Call): Unit =
    if (!dropGone() && ticket.get == InLine && gate.cancel(ticket)) ticket.set(Idle)

  /** Releases the permit if no attempt has taken it over. */
  override def left(call: Call): Unit = if (call.permit ne null) {
    val permit = call.permit
    call.permit = null
    permit.unused()
  }

  private def advance(): Unit =
    while (dropGone() && ticket.get == Idle && ticket.acquire(line.peekFirst())) start(line.pollFirst())

  /** Drops unwanted calls from the head; true if a call is left. */
  private def dropGone(): Boolean = {
    while (!line.isEmpty && !line.peekFirst().isWanted) line.pollFirst()
    if (line.isEmpty) way.metrics.limitWait.markEnd()
    !line.isEmpty
  }

  /**
   * Starts the first call, unless a pause has begun since the permit was granted, or it was granted for one
   * that is gone and is charged otherwise.
   */
  private def onGranted(): Unit = if (ticket.compareAndSet(Granted, Idle)) {
    way.metrics.limitWait.lap()
    val fits = dropGone() && gate.mayBegin && ((charges eq null) || ticket.isFor(line.peekFirst()))
    if (fits) start(line.pollFirst()) else ticket.taken().unused()
    advance()
  }

  /** Leaves the queue of the gate, and releases a permit that was granted and not used. */
  override def close(): Unit = {
    line.clear()
    way.metrics.limitWait.markEnd()
    val state = ticket.getAndSet(Closed)
    if (state == Granted) ticket.taken().unused()
    // If `cancel` fails, a permit is on its way to the ticket, which finds the stage closed and releases it.
    else if (state == InLine) gate.cancel(ticket): Unit
  }

  /** The waiter at the gate. Its state tells who owns a permit that arrives; `Closed` releases it at once. */
  private final class Ticket extends AtomicInteger(Idle) with CallWaiter {
    @volatile override var permit: Permit = _
    private var wanted: Call = _

    override def estimate(limit: Int): Double = wanted.charges(limit)

    def isFor(call: Call): Boolean = wanted eq call

    /** The permit that was granted. */
    def taken(): Permit = {
      val own = permit
      permit = null
      if (own eq null) gate else own
    }

    def acquire(call: Call): Boolean = {
      wanted = call
      set(InLine)
      val granted = gate.tryAcquire(this)
      if (granted) set(Idle)
      granted
    }

    override def run(): Unit =
      if (compareAndSet(InLine, Granted)) tell() else taken().unused()

    private def tell(): Unit =
      try way.executor.execute(() => onGranted(), "an async call has its permit")
      catch {
        // The task has ended and `close` gives the permit back.
        case _: RejectedExecutionException => ()
      }
  }
}

private object Limits {
  private final val Idle = 0
  private final val InLine = 1
  private final val Granted = 2
  private final val Closed = 3
}
