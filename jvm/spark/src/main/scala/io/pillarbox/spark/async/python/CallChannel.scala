package io.pillarbox.spark.async.python

import java.util.{List => JList}

import io.pillarbox.metered.journal.CallTicket

/**
 * The way of calls, and of cancellations after them, to the worker: messages arrive in the order in which
 * they were given.
 *
 * A call is named by its element and its attempt. `call`, `callGroup`, `collect`, `cancel` and `giveUp` never block.
 */
private[pillarbox] trait CallChannel {

  /** Opens the channel, before any message. Blocks. */
  def open(): Unit

  def call(call: PythonCall): Unit

  /** Starts one call of the batch form for several rows. The list must not change afterwards. */
  def callGroup(calls: JList[PythonCall]): Unit

  /** Asks for the answers of calls that have one ticket; each has its place in it. The lists must not change. */
  def collect(calls: JList[PythonCall], tickets: JList[CallTicket]): Unit

  /** Cancels a call that was started; no answer need come. */
  def cancel(elementId: Long, attempt: Int): Unit

  /** Frees the place of a failed element, which no attempt follows, for one that was sent ahead. */
  def giveUp(elementId: Long): Unit

  /** Ends a wait for the worker in `open`. Any thread. */
  def abort(): Unit = ()

  /** Ends the channel, after all messages. Idempotent. */
  def close(): Unit
}
