package io.pillarbox.metered.journal

import java.util

/**
 * The journal as an operator sees it: asked before a call, told after it. Mailbox thread only. A method that
 * throws fails the task.
 */
private[pillarbox] trait CallJournal[OUT] {

  /** The rows that were answered once, flushed or not, or null if there are none that still count. */
  def find(key: CallKey): util.Collection[OUT]

  /** Tells that a call is about to be made. Throws if its answer could not be kept. */
  def willCall(): Unit

  /**
   * Keeps the rows that the function answered in the last of the attempts. They are safe, as far as the
   * folder can promise it, when `flush` returns.
   *
   * @param attempt its number, without those that ended in a pause of the limits
   */
  def keep(key: CallKey, cost: CallCost, attempt: Int, rows: util.Collection[OUT]): Unit

  /** Writes the kept rows, before they leave the operator. */
  def flush(): Unit
}

/**
 * What an answer has cost.
 *
 * @param attempts the attempts of its call, with pauses of the limits; the last of them gave it
 * @param usage the amounts that all of them reported, by unit
 */
private[pillarbox] final case class CallCost(attempts: Int, usage: Seq[(String, Double)] = Nil)
