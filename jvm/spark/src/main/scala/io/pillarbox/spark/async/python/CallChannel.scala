package io.pillarbox.spark.async.python

import java.util.{List => JList}

import org.apache.spark.sql.catalyst.InternalRow

/**
 * Where calls go, and cancellations after them: messages arrive in the order in which they were given.
 *
 * A call is named by its element and its attempt. `call`, `callGroup`, `cancel` and `giveUp` never block.
 */
private[pillarbox] trait CallChannel {

  /** Before everything else. Blocks. */
  def open(): Unit

  /** Starts one call. */
  def call(elementId: Long, attempt: Int, row: InternalRow): Unit

  /** Starts one call of the batch form for several rows. The list must not change afterwards. */
  def callGroup(calls: JList[PythonCall]): Unit

  /** Cancels a call that was started; no answer need come. */
  def cancel(elementId: Long, attempt: Int): Unit

  /** No further attempt follows for an element that failed: its place is free for one that was sent ahead. */
  def giveUp(elementId: Long): Unit

  /** After everything else. Idempotent. */
  def close(): Unit
}
