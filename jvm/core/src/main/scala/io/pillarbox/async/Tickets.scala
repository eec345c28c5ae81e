package io.pillarbox.async

import java.util

import io.pillarbox.mailbox.ProcessingTimer

/** Finds the tickets that calls were given before. Mailbox thread only; what the journal throws fails the task. */
private[async] final class KnownTickets[IN, OUT](journal: TicketJournal) extends Stage[IN, OUT] {
  override def enter(call: Call): Unit = {
    if (call.ticket eq null) call.ticket = journal.find(call.key)
    goOn(call)
  }
}

/**
 * Keeps the tickets of calls that are answered later, and sends calls that have one on again as polls until
 * they are answered. They wait here, and hold nothing of the stages behind. Elements that were submitted
 * together are asked for together. Mailbox thread only; what the journal throws fails the task.
 */
private[async] final class Tickets[IN, OUT](way: CallWay[IN, OUT], ticketing: Ticketing)
    extends Stage[IN, OUT] {
  import ticketing.{journal, pollMs}

  private val waiting = new util.HashMap[String, Waiting]

  override def enter(call: Call): Unit =
    if (call.hasTicket) waitingFor(call.ticket.text).gather(call) else goOn(call)

  private def waitingFor(ticket: String): Waiting = waiting.computeIfAbsent(ticket, new Waiting(_))

  /** Takes a ticket, or that there is no answer yet. A ticket that has ended is given up. */
  override def ended(call: Call, attempt: CallAttempt[IN, OUT]): Boolean = {
    val isPoll = attempt.isPoll && attempt.hasBegun
    // A poll is no attempt, unless it fails.
    if (isPoll && !attempt.isFailure) call.attempts -= 1
    if (attempt.isWait) waits(call, attempt)
    else {
      if (isPoll && attempt.isFailure && ticketing.isOver(attempt.error)) giveUp(call)
      true
    }
  }

  private def waits(call: Call, attempt: CallAttempt[IN, OUT]): Boolean = {
    if (!attempt.isPoll) {
      call.ticket = attempt.ticket.copy(round = call.ticketRound)
      journal.keep(call.key, call.ticket)
    }
    call.carry(attempt.usage)
    // What fails from now on is counted anew.
    call.pauses = call.attempts
    if (ticketing.waits) {
      way.giveBack(call, this)
      call.current = null
      way.deadlines.waits(call)
      waitingFor(call.ticket.text).pollLater(call)
    } else attempt.endAs(new PendingException(call.ticket.text))
    !ticketing.waits
  }

  private def giveUp(call: Call): Unit = {
    call.ticket = call.ticket.over
    journal.keep(call.key, call.ticket)
  }

  override def withdraw(call: Call): Unit = if (call.hasTicket) {
    val group = waiting.get(call.ticket.text)
    if (group ne null) group.drop(call)
  }

  /** Polls for elements whose company does not come; those that have polled wait for their time. */
  override def inputPauses(): Boolean = {
    new util.ArrayList(waiting.values).forEach(group => if (group.gathers) group.poll())
    true
  }

  override def close(): Unit = {
    waiting.values.forEach(way.time.cancel(_): Unit)
    waiting.clear()
  }

  /** The elements of one ticket that stand here. */
  private final class Waiting(ticket: String) extends ProcessingTimer {
    private val members = new util.LinkedHashSet[Call]

    /** True if it waits for the others of the ticket alone. */
    var gathers = true

    /** Adds an element that asks as soon as all are here, or none came for a while. */
    def gather(call: Call): Unit = {
      members.add(call)
      if (gathers && members.size == call.ticket.of) poll()
      else wake()
    }

    /** Adds an element that has asked, or was submitted, just now. */
    def pollLater(call: Call): Unit = {
      members.add(call)
      if (gathers && isScheduled) way.time.cancel(this): Unit
      gathers = false
      wake()
    }

    private def wake(): Unit =
      if (!isScheduled) way.time.schedule(this, way.time.currentProcessingTime + pollMs)

    def drop(call: Call): Unit = if (members.remove(call) && members.isEmpty) end()

    private def end(): Unit = {
      way.time.cancel(this): Unit
      waiting.remove(ticket): Unit
    }

    override def onProcessingTime(timestampMs: Long): Unit = poll()

    def poll(): Unit = {
      end()
      val group = new CallGroup(way)
      group.members.addAll(members)
      group.ticket = group.members.get(0).ticket
      if (group.isWanted) goOn(group)
    }
  }
}
