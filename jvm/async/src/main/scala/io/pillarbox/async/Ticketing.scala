package io.pillarbox.async

import java.util

import io.pillarbox.api.{AsyncFunction, ResultFuture}
import io.pillarbox.metered.journal.{CallTicket, TicketJournal}

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
