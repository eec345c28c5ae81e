package io.pillarbox.async

import io.pillarbox.api.ResultFuture
import io.pillarbox.metered.limit.Feedback

/** The futures of an [[AsyncWaitOperator]], with methods that are not for users. */
private[pillarbox] trait ElementFuture[OUT] extends ResultFuture[OUT] {

  /**
   * The number of the element in this operator, from the operator's first element id, the same for all
   * attempts and after a restore.
   */
  def elementId: Long

  /**
   * Takes note of what the service says of a limit, while the attempt is under way. Any thread.
   *
   * @param unit the number of the operator's unit, or `Limiter.Calls`
   */
  def told(unit: Int, said: Feedback): Unit

  /** Lets all calls under the operator's limits wait for this time in ns. Any thread. */
  def pauseLimits(nanos: Long): Unit

  /** How many tickets of the element were given up before this attempt. Mailbox thread. */
  def ticketRound: Int
}

private[pillarbox] object ElementFuture {

  /** The number of the element that a future of an [[AsyncWaitOperator]] belongs to. */
  def idOf(future: ResultFuture[_]): Long = of(future).elementId

  /** A future of an [[AsyncWaitOperator]], as it is to this library. */
  def of(future: ResultFuture[_]): ElementFuture[_] = future.asInstanceOf[ElementFuture[_]]
}
