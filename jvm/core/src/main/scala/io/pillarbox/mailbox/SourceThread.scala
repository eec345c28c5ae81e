package io.pillarbox.mailbox

import java.util.concurrent.atomic.{AtomicBoolean, AtomicReference}
import java.util.concurrent.{ArrayBlockingQueue, RejectedExecutionException}

/**
 * Reads an input that may block for long on another thread, and hands its rows to the mailbox thread
 * through a bounded exchange. So mail runs while the input blocks.
 *
 * Rows arrive in order, none is lost or doubled. An exception of the input is thrown to the mailbox thread
 * after the rows before it. `close`, or an interrupt of either side, ends both.
 *
 * @param input read on the source thread only. A row must stay valid after the next is read: copy it if the
 *   input reuses it
 * @param capacity
 *   rows that may lie in the exchange; when it is full the source thread waits
 * @param executor
 *   through which `onAvailable` is sent
 * @param onAvailable
 *   runs on the mailbox thread when there is something to poll again after `poll` said that there was nothing
 */
private[pillarbox] final class SourceThread[T <: AnyRef](
    name: String,
    input: Iterator[T],
    capacity: Int,
    executor: MailboxExecutor,
    onAvailable: Runnable
) extends AutoCloseable {
  require(capacity > 0, s"The capacity of a source thread must be positive, not $capacity")

  private val exchange = new ArrayBlockingQueue[T](capacity)
  private val ended = new AtomicReference[SourceThread.End]
  private val wanted = new AtomicBoolean
  private val thread = new Thread(() => read(), name)
  @volatile private var closed = false

  /**
   * Starts reading. Once.
   *
   * @throws IllegalThreadStateException at the second call
   */
  def start(): Unit = {
    thread.setDaemon(true)
    thread.start()
  }

  /**
   * Mailbox thread: the next row, or null; then `status` tells why.
   *
   * @throws SourceFailedException with the input's exception as its cause
   */
  def poll(): T = {
    val row = exchange.poll()
    if (row ne null) row else pollAgain()
  }

  /**
   * Asks to be told first, and looks once more then: a row put between the two is either seen here or told
   * of. The end is read before that look, as rows are put before it is set.
   */
  private def pollAgain(): T = {
    wanted.set(true)
    val end = ended.get()
    val row = exchange.poll()
    if (row ne null) wanted.set(false)
    else if ((end ne null) && (end.error ne null)) throw new SourceFailedException(name, end.error)
    row
  }

  /** Mailbox thread: what `poll` would find. */
  def status: InputStatus = {
    val end = ended.get()
    if (!exchange.isEmpty) InputStatus.MoreAvailable
    else if (end eq null) InputStatus.NothingAvailable
    else if (end.error ne null) InputStatus.MoreAvailable
    else InputStatus.EndOfData
  }

  private def read(): Unit = {
    val end =
      try {
        while (!closed && input.hasNext) {
          exchange.put(input.next())
          tell()
        }
        SourceThread.End(null)
      } catch {
        case _: InterruptedException if closed => SourceThread.End(null)
        case error: Throwable => SourceThread.End(error)
      }
    ended.set(end)
    tell()
  }

  private def tell(): Unit = if (wanted.get() && wanted.compareAndSet(true, false)) {
    try executor.execute(onAvailable)
    catch {
      // The task has ended and polls no more.
      case _: RejectedExecutionException => closed = true
    }
  }

  /**
   * Ends the source thread, interrupting its read, and waits until it has ended. Any thread, more than once.
   *
   * @throws InterruptedException if interrupted while waiting; the source thread ends nevertheless
   */
  @throws[InterruptedException]
  override def close(): Unit = {
    closed = true
    thread.interrupt()
    exchange.clear()
    if (Thread.currentThread() ne thread) thread.join()
  }
}

private object SourceThread {

  /** How the input ended; without an error, by its end or by `close`. */
  final case class End(error: Throwable)
}

/** The input of a source thread failed; the cause is its exception. */
private[pillarbox] final class SourceFailedException(name: String, cause: Throwable)
    extends RuntimeException(s"The source thread '$name' could not read its input: $cause", cause)
