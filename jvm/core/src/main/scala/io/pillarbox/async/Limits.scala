package io.pillarbox.async

import java.util
import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.atomic.AtomicInteger

/**
 * Lets calls wait for a permit of a gate, in order. It has one waiter at the gate however many calls wait,
 * and none if none does. Mailbox thread only; just the waiter itself runs on any thread.
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

  /** With the last call that is wanted the line leaves the gate, so that no permit is spent on nothing. */
  override def withdraw(call: Call): Unit =
    if (!dropGone() && ticket.get == InLine && gate.cancel(ticket)) ticket.set(Idle)

  /** If no attempt has taken the permit over. */
  override def left(call: Call): Unit = if (call.permit ne null) {
    call.permit = null
    gate.release()
  }

  private def advance(): Unit = while (dropGone() && ticket.acquire()) start(line.pollFirst())

  /** Calls that are gone leave from the head; whether one is left. */
  private def dropGone(): Boolean = {
    while (!line.isEmpty && !line.peekFirst().isWanted) line.pollFirst()
    !line.isEmpty
  }

  /** A pause may have begun since the permit was granted. */
  private def onGranted(): Unit = if (ticket.compareAndSet(Granted, Idle)) {
    if (dropGone() && gate.mayBegin) start(line.pollFirst()) else gate.release()
    advance()
  }

  /** Leaves the line at the gate; a permit that was granted and not used goes back. */
  override def close(): Unit = {
    line.clear()
    val state = ticket.getAndSet(Closed)
    if (state == Granted) gate.release()
    // If it has left the line, a permit is on its way to the ticket, which finds the line closed and sends it
    // back.
    else if (state == InLine) gate.cancel(ticket): Unit
  }

  /**
   * The waiter at the gate. Its state tells who owns a permit that arrives: a closed line sends it straight
   * back.
   */
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
