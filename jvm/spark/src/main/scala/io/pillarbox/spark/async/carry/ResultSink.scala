package io.pillarbox.spark.async.carry

import java.io.DataOutputStream

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * The destination of a slot's results: the file of the version that the open micro-batch writes, and memory
 * between micro-batches, when only the calls in flight can bring some. The slot's thread.
 */
private[carry] final class ResultSink {
  private val waiting = new mutable.ArrayDeque[UnsafeRow]
  private var file: DataOutputStream = _
  private var count = 0L
  private var hold = Long.MaxValue

  def isOpen: Boolean = file != null

  /** A micro-batch begins, which takes what has come since the last one. */
  def open(out: DataOutputStream): Unit = {
    file = out
    waiting.foreach(SlotStateFormat.writeRow(out, _))
    waiting.clear()
  }

  /** @param row valid during the call */
  def add(row: UnsafeRow, holdMicros: Long): Unit = {
    count += 1
    hold = math.min(hold, holdMicros)
    if (file != null) SlotStateFormat.writeRow(file, row) else waiting += row.copy()
  }

  /** The micro-batch has ended: how many results it has, and the earliest time among them. */
  def close(): (Long, Long) = {
    val figures = (count, hold)
    file = null
    count = 0
    hold = Long.MaxValue
    figures
  }
}
