package io.pillarbox.mailbox

import java.util.concurrent.atomic.{AtomicBoolean, AtomicReference}
import java.util.concurrent.{ArrayBlockingQueue, RejectedExecutionException}

/**
 * Hands rows from one thread that reads them, and may block for long, to a mailbox thread, through a bounded
 * queue. So mail runs while the input blocks.
 *
 * Rows arrive in order, none is lost or doubled. An exception of the input is thrown to the mailbox thread
 * after the rows before it.
 *
 * @param source
 *   names the input in errors
 * @param capacity
 *   rows that may lie in the queue; when it is full the reading thread waits
 * @param executor
 *   through which `onAvailable` is sent
 * @param onAvailable
 *   runs on the mailbox thread when there is something to poll again after `poll` said that there was nothing
 */
private[pillarbox] final class InputExchange[T <: AnyRef](
    source: String,
    capacity: Int,
    executor: MailboxExecutor,
    onAvailable: Runnable
) {
  require(capacity > 0, s"The capacity of an exchange must be positive, not $capacity")

  private val rows = new ArrayBlockingQueue[T](capacity)
  private val ended = new AtomicReference[InputExchange.End]
  private val wanted = new AtomicBoolean
  @volatile private var closed = false

  /**
   * Reading thread: adds a row, after waiting for a place. A row must stay valid: copy it if it is reused.
   *
   * @return
   *   false if nobody polls any more, and the row went nowhere
   * @throws InterruptedException
   *   if interrupted while it waits
   */
  @throws[InterruptedException]
  def put(row: T): Boolean = !closed && {
    rows.put(row)
    tell()
    !closed
  }

  /** Reading thread: no row follows; `error` says why, if it is not the end of the input. Once. */
  def end(error: Throwable): Unit = {
    ended.set(InputExchange.End(error))
    tell()
  }

  /**
   * Mailbox thread: the next row, or null; then `status` tells why.
   *
   * @throws SourceFailedException with the input's exception as its cause
   */
  def poll(): T = {
    val row = rows.poll()
    if (row ne null) row else pollAgain()
  }

  /**
   * Asks to be told first, and looks once more then: a row put between the two is either seen here or told
   * of. The end is read before that look, as rows are put before it is set.
   */
  private def pollAgain(): T = {
    wanted.set(true)
    val end = ended.get()
    val row = rows.poll()
    if (row ne null) wanted.set(false)
    else if ((end ne null) && (end.error ne null)) throw new SourceFailedException(source, end.error)
    row
  }

  /** Mailbox thread: what `poll` would find. */
  def status: InputStatus = {
    val end = ended.get()
    if (!rows.isEmpty) InputStatus.MoreAvailable
    else if (end eq null) InputStatus.NothingAvailable
    else if (end.error ne null) InputStatus.MoreAvailable
    else InputStatus.EndOfData
  }

  private def tell(): Unit = if (wanted.get() && wanted.compareAndSet(true, false)) {
    try executor.execute(onAvailable)
    catch {
      // The mailbox has closed and polls no more.
      case _: RejectedExecutionException => closed = true
    }
  }

  /** Whether no row lies here. */
  def isEmpty: Boolean = rows.isEmpty

  def isClosed: Boolean = closed

  /** Nobody polls any more: drops what is there, and lets a reading thread that waits for a place go on. */
  def close(): Unit = {
    closed = true
    rows.clear()
  }
}

private object InputExchange {

  /** How the input ended; without an error, by its end or by `close`. */
  final case class End(error: Throwable)
}
