package io.pillarbox.async

import java.util

import io.pillarbox.mailbox.ProcessingTimer
import io.pillarbox.metered.journal.TicketJournal

/** Finds the tickets that calls were given before. Mailbox thread only; what the journal throws fails the task. */
private[async] final class KnownTickets[IN, OUT](journal: TicketJournal) extends Stage[IN, OUT] {
  override def enter(call: Call): Unit = {
    find(call)
    goOn(call)
  }

  def find(call: Call): Unit = if (call.ticket eq null) {
    call.ticket = journal.find(call.key)
    call.roundsBefore = call.ticketRound
  }
}

/**
 * Keeps the tickets of calls that are answered later, and sends calls that have one on again as polls until
 * they are answered. They wait here, and hold nothing of the stages behind. Elements that were submitted
 * together are asked for together, and submitted together again if that has failed: so their service sees the
 * same request. Mailbox thread only; what the journal throws fails the task.
 */
private[async] final class Tickets[IN, OUT](pipeline: CallPipeline[IN, OUT], ticketing: Ticketing)
    extends Stage[IN, OUT] {
  import ticketing.{journal, pollMs}

  /** The time for which elements wait for others of theirs, as they did when they were submitted. */
  private val companyMs = pipeline.options.batching.fold(pollMs)(_.waitMs)

  /** By what they have in common: the text of a ticket, or a submission that failed. */
  private val waiting = new util.HashMap[AnyRef, Waiting]
  private val gathering = new util.LinkedHashSet[Waiting]

  override def enter(call: Call): Unit =
    if (call.hasTicket) waitingFor(call).gather(call, call.ticket.of)
    else if (call.submission ne null) waitingFor(call).gather(call, call.submission.members.size)
    else goOn(call)

  private def companyOf(call: Call): AnyRef = if (call.hasTicket) call.ticket.text else call.submission

  private def waitingFor(call: Call): Waiting = waiting.computeIfAbsent(companyOf(call), new Waiting(_))

  /** Takes a ticket, or that there is no answer yet. A ticket that has ended is given up. */
  override def ended(call: Call, attempt: CallAttempt[IN, OUT]): Boolean = {
    val isPoll = attempt.isPoll && attempt.hasBegun
    // A poll is no attempt, unless it fails.
    if (isPoll && !attempt.isFailure) call.attempts -= 1
    if (attempt.isWait) waits(call, attempt)
    else {
      if (attempt.isFailure) failed(call, attempt, isPoll)
      true
    }
  }

  private def failed(call: Call, attempt: CallAttempt[IN, OUT], isPoll: Boolean): Unit =
    if (!isPoll) call.submission = attempt.group
    else if (ticketing.isOver(attempt.error)) {
      call.ticket = call.ticket.over
      journal.keep(call.key, call.ticket)
    }

  private def waits(call: Call, attempt: CallAttempt[IN, OUT]): Boolean = {
    keep(call, attempt)
    // What fails from now on is counted anew, but for tickets that were given up: each was paid for.
    call.pauses = call.attempts - (call.ticketRound - call.roundsBefore)
    if (ticketing.waits) {
      call.carry(attempt.usage)
      call.at = this
      call.current = null
      pipeline.deadlines.waits(call)
      waitingFor(call).pollLater(call)
    } else attempt.endAs(new PendingException(call.ticket.text))
    !ticketing.waits
  }

  /** Keeps a new ticket. */
  override def keep(call: Call, attempt: CallAttempt[IN, OUT]): Unit =
    if (attempt.isWait && !attempt.isPoll) {
      call.submission = null
      call.ticket = attempt.ticket.copy(round = call.ticketRound)
      journal.keep(call.key, call.ticket)
    }

  override def withdraw(call: Call): Unit = {
    val company = waiting.get(companyOf(call))
    if (company ne null) company.drop(call)
  }

  /** Sends those on whose company does not come; those that have polled wait for their time. */
  override def inputPauses(): Boolean = {
    if (!gathering.isEmpty)
      new util.ArrayList(gathering).forEach(waiting => if (!waiting.isExpecting) waiting.send())
    true
  }

  override def close(): Unit = {
    waiting.values.forEach(pipeline.time.cancel(_): Unit)
    waiting.clear()
    gathering.clear()
  }

  /** The elements that stand here and have something in common. */
  private final class Waiting(common: AnyRef) extends ProcessingTimer {
    private val members = new util.LinkedHashSet[Call]
    private var hasPolled = false

    /** Adds an element that goes on as soon as all are here, or none came for a while. */
    def gather(call: Call, all: Int): Unit = {
      members.add(call)
      if (!hasPolled) gathering.add(this)
      if (!hasPolled && members.size == all) send() else wake(companyMs)
    }

    /** Adds an element that has asked, or was submitted, just now. */
    def pollLater(call: Call): Unit = {
      members.add(call)
      hasPolled = true
      if (gathering.remove(this)) pipeline.time.cancel(this): Unit
      wake(pollMs)
    }

    /** True if others of a submission that failed are on their way, as all answers don't come at one time. */
    def isExpecting: Boolean = common match {
      case submission: CallGroup[IN @unchecked, OUT @unchecked] =>
        submission.members.stream.anyMatch(call => !members.contains(call) && comes(call, submission))
      case _ => false
    }

    private def comes(call: Call, submission: CallGroup[IN, OUT]) = (call.at ne null) &&
      ((call.submission eq submission) || ((call.current ne null) && (call.current.group eq submission)))

    private def wake(ms: Long): Unit =
      if (!isScheduled) pipeline.time.schedule(this, pipeline.time.currentProcessingTime + ms)

    def drop(call: Call): Unit = if (members.remove(call) && members.isEmpty) end()

    private def end(): Unit = {
      pipeline.time.cancel(this): Unit
      gathering.remove(this)
      waiting.remove(common): Unit
    }

    override def onProcessingTime(timestampMs: Long): Unit = send()

    def send(): Unit = {
      end()
      val group = groupOf(members)
      if (group.isWanted) goOn(group)
    }

    private def groupOf(calls: util.Set[Call]): CallGroup[IN, OUT] = {
      val group = new CallGroup(pipeline)
      common match {
        // In the order of then, whatever the order in which they come back.
        case submission: CallGroup[IN @unchecked, OUT @unchecked] =>
          submission.members.forEach(call => if (calls.contains(call)) group.members.add(call): Unit)
        case _ =>
          group.members.addAll(calls)
          group.ticket = group.members.get(0).ticket
      }
      group
    }
  }
}
