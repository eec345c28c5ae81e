package io.pillarbox.spark.async

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.{ByteBuffer, ByteOrder}
import java.util.{List => JList}

import scala.collection.mutable

import io.pillarbox.async.retry.FailedCall
import io.pillarbox.metered.journal.{CallKey, CallTicket}
import io.pillarbox.spark.async.python.{CallChannel, PythonCall}
import io.pillarbox.spark.worker.{Frame, WorkerCalls}
import org.apache.spark.sql.catalyst.InternalRow

/**
 * Tells the worker of a keyed function of attempts, in their order: those of one moment in one frame. On one
 * thread.
 *
 * @param send sends a frame; may block
 * @param nameOf names the call of a row with its number
 */
private final class AttemptChannel(
    send: (Byte, ByteBuffer) => Unit,
    nameOf: (InternalRow, Long) => CallKey
) extends CallChannel {
  import AttemptChannel._

  private val told = mutable.ArrayBuffer.empty[ByteBuffer]
  private var more: Runnable = () => ()
  private var isOpen = false

  /** Sets what runs when there is something to `flush`. */
  def onMore(hook: Runnable): Unit = more = hook

  override def open(): Unit = isOpen = true

  override def call(call: PythonCall): Unit = {
    val name = nameOf(call.row, call.elementId)
    val begins = entry(Begins, call.elementId, 20).putInt(call.attempt)
    put(begins.order(ByteOrder.BIG_ENDIAN).putLong(name.high).putLong(name.low))
  }

  override def cancel(elementId: Long, attempt: Int): Unit = put(entry(GivenUp, elementId, 4).putInt(attempt))

  /** Tells that a call has failed for good; `texts` are the kind, the message and the traceback. */
  def failed(id: Long, call: FailedCall[_], texts: Seq[String], endsTask: Boolean): Unit = {
    val told = (call.callId +: texts).map(_.getBytes(UTF_8))
    val failed = entry(Failed, id, 13 + told.map(_.length + 4).sum)
    failed.put((if (endsTask) 1 else 0).toByte).putInt(call.attempts).putLong(call.elapsedMs)
    told.foreach(text => failed.putInt(text.length).put(text))
    put(failed)
  }

  /** Tells that all calls of the frame have ended. */
  def allEnded(): Unit = put(entry(AllEnded, 0L, 0))

  private def entry(what: Byte, id: Long, bytes: Int): ByteBuffer =
    Frame.buffer(9 + bytes).put(what).putLong(id)

  private def put(entry: ByteBuffer): Unit = if (isOpen) {
    if (told.isEmpty) more.run()
    told += entry.flip()
  }

  def flush(): Unit = if (told.nonEmpty) {
    val frame = Frame.buffer(told.iterator.map(_.remaining).sum)
    told.foreach(frame.put)
    told.clear()
    try send(WorkerCalls.Attempts, frame.flip())
    catch { case _: IOException => } // The task's thread finds out why.
  }

  /** Drops what comes now. */
  override def close(): Unit = isOpen = false

  override def callGroup(calls: JList[PythonCall]): Unit = throw new UnsupportedOperationException

  override def collect(calls: JList[PythonCall], tickets: JList[CallTicket]): Unit =
    throw new UnsupportedOperationException

  override def giveUp(elementId: Long): Unit = ()
}

private object AttemptChannel {
  private final val Begins: Byte = 1
  private final val GivenUp: Byte = 2
  private final val Failed: Byte = 3
  private final val AllEnded: Byte = 4
}
