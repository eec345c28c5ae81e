package io.pillarbox.mailbox

import java.util.ArrayDeque
import java.util.concurrent.RejectedExecutionException

/**
 * Hands rows from one thread that reads them, and may block for long, to a mailbox thread, through a bounded
 * buffer. So mail runs while the input blocks.
 *
 * Rows arrive in order, none is lost or doubled. An exception of the input is thrown to the mailbox thread
 * after the rows before it.
 *
 * @param capacity how many rows may wait, and how many bytes; when they reach either the reading thread waits
 * @param executor sends `onAvailable`
 * @param onAvailable runs on the mailbox thread when there is something to poll again after `poll` said that
 *   there was nothing
 */
private[pillarbox] final class InputExchange[T <: AnyRef](
    capacity: InputExchange.Capacity[T],
    executor: MailboxExecutor,
    onAvailable: Runnable
) {

  /** The mailbox thread's rows; it takes all that wait at once, so that no thread wakes the other a row. */
  private var taken = new ArrayDeque[T]
  private var waiting = new ArrayDeque[T]
  private var bytesWaiting = 0L
  private var ended: InputExchange.End = _
  private var wanted = false
  @volatile private var closed = false

  /**
   * Reading thread: adds a row, after waiting for a place. A row must stay valid: copy it if it is reused.
   *
   * @return false if nobody polls any more, and the row went nowhere
   * @throws InterruptedException if interrupted while it waits
   */
  @throws[InterruptedException]
  def put(row: T): Boolean = {
    val bytes = capacity.bytesOf(row)
    val isWanted = synchronized {
      while ((waiting.size >= capacity.rows || bytesWaiting >= capacity.bytes) && !closed) wait()
      !closed && {
        waiting.add(row)
        bytesWaiting += bytes
        unwant()
      }
    }
    if (isWanted) tell()
    !closed
  }

  /** Reading thread, once: ends the input; `error` says why, null at its end. */
  def end(error: Throwable): Unit = {
    val isWanted = synchronized {
      ended = InputExchange.End(error)
      unwant()
    }
    if (isWanted) tell()
  }

  private def unwant(): Boolean = {
    val was = wanted
    wanted = false
    was
  }

  /** Mailbox thread: the next row, or null; then `status` tells why. Throws the exception of the input. */
  def poll(): T = {
    if (taken.isEmpty) takeAll()
    else if (closed) taken.clear()
    taken.poll()
  }

  /** Takes all that waits; if nothing does, asks to be told. */
  private def takeAll(): Unit = synchronized {
    if (!waiting.isEmpty) {
      val empty = taken
      taken = waiting
      waiting = empty
      bytesWaiting = 0
      notifyAll()
    } else if (ended eq null) wanted = true
    else if (ended.error ne null) throw ended.error
  }

  /** Mailbox thread: tells what `poll` would find. */
  def status: InputStatus =
    if (!taken.isEmpty) InputStatus.MoreAvailable
    else
      synchronized {
        if (!waiting.isEmpty) InputStatus.MoreAvailable
        else if (ended eq null) InputStatus.NothingAvailable
        else if (ended.error ne null) InputStatus.MoreAvailable
        else InputStatus.EndOfData
      }

  private def tell(): Unit =
    try executor.execute(onAvailable)
    catch {
      // The mailbox has closed and polls no more.
      case _: RejectedExecutionException => closed = true
    }

  /** Mailbox thread: tells if no row lies here. */
  def isEmpty: Boolean = taken.isEmpty && synchronized(waiting.isEmpty)

  def isClosed: Boolean = closed

  /** Ends the exchange: drops what waits, and lets a reading thread that waits for a place go on. */
  def close(): Unit = synchronized {
    closed = true
    waiting.clear()
    notifyAll()
  }
}

private[pillarbox] object InputExchange {

  /**
   * What may wait in an exchange. The mailbox thread has as much again, which it took, and a row more may come
   * over the bytes, so that one of any size passes.
   *
   * @param bytesOf the size of a row; on the reading thread
   */
  final case class Capacity[-T](rows: Int, bytes: Long = Long.MaxValue, bytesOf: T => Long = (_: Any) => 0L) {
    require(
      rows > 0 && bytes > 0,
      s"The capacity of an exchange must be positive, not $rows rows, $bytes bytes"
    )
  }

  /** The end of the input; `error` is null if it is the end of the data or `close`. */
  private[mailbox] final case class End(error: Throwable)
}
