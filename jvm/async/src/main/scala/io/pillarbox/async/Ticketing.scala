package io.pillarbox.async

import java.util

import io.pillarbox.api.{AsyncFunction, ResultFuture}
import io.pillarbox.metered.journal.CallKey

/**
 * What a service gave for a call that it will answer later.
 *
 * @param text names the answers of all elements that were submitted together; null once it was given up
 * @param place the element's place among them, from 0
 * @param of the number of elements that were submitted together
 * @param round how many tickets of the element were given up before: a service that remembers idempotency
 *   keys must see another one then
 */
private[pillarbox] final case class CallTicket(text: String, place: Int, of: Int, round: Int = 0) {
  def isOut: Boolean = text ne null

  /** Returns the ticket after it was given up. */
  def over: CallTicket = CallTicket(null, 0, 0, round + 1)
}

/**
 * A function whose calls have two halves. Inputs are submitted as those of any function are, and futures may
 * be completed with a ticket; then `collect` is called until it is answered.
 */
private[pillarbox] trait TicketedFunction[IN, OUT] extends AsyncFunction[IN, OUT] {

  /**
   * Asks for the answers of one ticket. A future is completed as that of any attempt, or with "not yet"
   * ([[CompletionBatch.pending]]). Mailbox thread; the lists no longer change.
   *
   * @param tickets one an input: all of one text, with the inputs' places
   */
  @throws[Exception]
  def collect(
      inputs: util.List[IN],
      tickets: util.List[CallTicket],
      resultFutures: util.List[ResultFuture[OUT]]
  ): Unit
}

/** Where tickets are kept. Mailbox thread only; a method that throws fails the task. */
private[pillarbox] trait TicketJournal {

  /** The ticket of a call that was kept last, flushed or not; null if there is none. */
  def find(key: CallKey): CallTicket

  /** Keeps the ticket of a call. It outlives the process when `flush` returns. */
  def keep(key: CallKey, ticket: CallTicket): Unit

  /** Writes the kept tickets, before their calls do anything else. */
  def flush(): Unit
}

/**
 * Says how calls with tickets go on.
 *
 * @param pollMs the time between two times that a ticket is asked for
 * @param waits false if an element whose ticket has no answer yet fails, with a [[PendingException]]
 * @param isOver tells of the failure of a ticket's answer if the ticket has ended with it
 */
private[pillarbox] final case class Ticketing(
    pollMs: Long,
    waits: Boolean,
    journal: TicketJournal,
    isOver: Throwable => Boolean = _ => false
) {
  require(pollMs > 0, s"The time between two polls must be positive, not $pollMs ms")
}

/** The element's ticket is out, and nobody waits for its answer now. */
private[pillarbox] final class PendingException(val ticket: String)
    extends RuntimeException(s"The ticket $ticket has no answer yet", null, false, false)
