package io.pillarbox.async

import java.util
import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.atomic.AtomicInteger

/**
 * Lets calls wait for a permit of a gate, in order. It has one waiter at the gate however many calls wait,
 * and none if none does. Mailbox thread only, except the waiter, which runs on any thread.
 */
private[async] final class Limits[IN, OUT](way: CallWay[IN, OUT]) extends Stage[IN, OUT] {
  import Limits._

  private val gate = way.options.gate
  private val line = new util.ArrayDeque[InFlightElement[IN, OUT]]
  private val ticket = new Ticket

  override def enter(call: Call): Unit =
    if (ticket.get == Idle && ticket.acquire()) start(call) else line.addLast(call): Unit

  private def start(call: Call): Unit = {
    call.permit = gate
    goOn(call)
  }

  /** Leaves the queue of the gate with the last wanted call, so that no permit is spent on nothing. */
  override def withdraw(call: Call): Unit =
    if (!dropGone() && ticket.get == InLine && gate.cancel(ticket)) ticket.set(Idle)

  /** Releases the permit if no attempt has taken it over. */
  override def left(call: Call): Unit = if (call.permit ne null) {
    call.permit = null
    gate.release()
  }

  private def advance(): Unit = while (dropGone() && ticket.acquire()) start(line.pollFirst())

  /** Drops unwanted calls from the head; true if a call is left. */
  private def dropGone(): Boolean = {
    while (!line.isEmpty && !line.peekFirst().isWanted) line.pollFirst()
    !line.isEmpty
  }

  /** Starts the first call, unless a pause has begun since the permit was granted. */
  private def onGranted(): Unit = if (ticket.compareAndSet(Granted, Idle)) {
    if (dropGone() && gate.mayBegin) start(line.pollFirst()) else gate.release()
    advance()
  }

  /** Leaves the queue of the gate, and releases a permit that was granted and not used. */
  override def close(): Unit = {
    line.clear()
    val state = ticket.getAndSet(Closed)
    if (state == Granted) gate.release()
    // If `cancel` fails, a permit is on its way to the ticket, which finds the stage closed and releases it.
    else if (state == InLine) gate.cancel(ticket): Unit
  }

  /** The waiter at the gate. Its state tells who owns a permit that arrives; `Closed` releases it at once. */
  private final class Ticket extends AtomicInteger(Idle) with Runnable {

    def acquire(): Boolean = {
      set(InLine)
      val granted = gate.tryAcquire(this)
      if (granted) set(Idle)
      granted
    }

    override def run(): Unit =
      if (compareAndSet(InLine, Granted)) tell() else gate.release()

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
