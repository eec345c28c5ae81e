package io.pillarbox.metered.journal

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

/** Where tickets are kept. Mailbox thread only; a method that throws fails the task. */
private[pillarbox] trait TicketJournal {

  /** The ticket of a call that was kept last, flushed or not; null if there is none. */
  def find(key: CallKey): CallTicket

  /** Keeps the ticket of a call. It outlives the process when `flush` returns. */
  def keep(key: CallKey, ticket: CallTicket): Unit

  /** Writes the kept tickets, before their calls do anything else. */
  def flush(): Unit
}
