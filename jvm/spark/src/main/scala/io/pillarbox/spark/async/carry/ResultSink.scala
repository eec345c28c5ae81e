package io.pillarbox.spark.async.carry

import java.io.DataOutputStream

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * The destination of a slot's results: the file of the version that the open micro-batch writes, and memory
 * between micro-batches, when only the calls in flight can bring some. The slot's thread.
 *
 * A few results stay in memory besides, so that the micro-batch that emits them need not open the file again.
 */
private[carry] final class ResultSink {
  private val waiting = new mutable.ArrayDeque[UnsafeRow]
  private var file: DataOutputStream = _
  private var kept = ResultSink.nothing
  private var keptBytes = 0L
  private var count = 0L
  private var hold = Long.MaxValue

  def isOpen: Boolean = file != null

  /** A micro-batch begins, which takes what has come since the last one. */
  def open(out: DataOutputStream): Unit = {
    file = out
    waiting.foreach { row =>
      SlotStateFormat.writeRow(out, row)
      keep(row)
    }
    waiting.clear()
  }

  /** @param row valid during the call */
  def add(row: UnsafeRow, holdMicros: Long): Unit = {
    count += 1
    hold = math.min(hold, holdMicros)
    if (file == null) waiting += row.copy()
    else {
      SlotStateFormat.writeRow(file, row)
      if (keptBytes <= ResultSink.KeptBytes) keep(row.copy())
    }
  }

  private def keep(row: UnsafeRow): Unit = {
    keptBytes += row.getSizeInBytes
    if (keptBytes <= ResultSink.KeptBytes) kept += row else kept.clear()
  }

  /** The micro-batch has ended. */
  def close(): ResultSink.Figures = {
    val figures =
      ResultSink.Figures(count, hold, Option.when(keptBytes <= ResultSink.KeptBytes)(kept.toSeq))
    file = null
    kept = ResultSink.nothing
    keptBytes = 0
    count = 0
    hold = Long.MaxValue
    figures
  }
}

private[carry] object ResultSink {

  /** The most bytes of results of a slot that stay in memory. */
  private final val KeptBytes = 256L << 10

  private def nothing = new mutable.ArrayBuffer[UnsafeRow]

  /**
   * The results of a micro-batch.
   *
   * @param holdMicros the earliest event time among them that holds the watermark back
   * @param rows all of them, in order, if they are few
   */
  final case class Figures(count: Long, holdMicros: Long, rows: Option[Seq[UnsafeRow]])
}
