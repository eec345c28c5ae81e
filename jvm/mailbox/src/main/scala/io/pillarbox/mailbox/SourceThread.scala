package io.pillarbox.mailbox

/**
 * Reads an input that may block for long on another thread, and hands its rows to the mailbox thread through
 * an [[InputExchange]], which tells of the order and of failures. `stop` ends both sides.
 *
 * @param input read on the source thread only. A row must stay valid after the next is read: copy it if the
 *   input reuses it
 * @param newThread makes the thread, not started, which runs what it is given
 */
private[pillarbox] final class SourceThread[T <: AnyRef](
    input: Iterator[T],
    capacity: InputExchange.Capacity[T],
    executor: MailboxExecutor,
    onAvailable: Runnable,
    newThread: Runnable => Thread
) {
  private val exchange = new InputExchange[T](capacity, executor, onAvailable)
  private val thread = newThread(() => read())

  /**
   * Starts reading. Once.
   *
   * @throws IllegalThreadStateException at the second call
   */
  def start(): Unit = {
    thread.setDaemon(true)
    thread.start()
  }

  /** Mailbox thread: the next row, or null; then `status` tells why. Throws the exception of the input. */
  def poll(): T = exchange.poll()

  /** Mailbox thread: tells what `poll` would find. */
  def status: InputStatus = exchange.status

  private def read(): Unit =
    try {
      while (!exchange.isClosed && input.hasNext && exchange.put(input.next())) {}
      exchange.end(null)
    } catch {
      case _: InterruptedException if exchange.isClosed => exchange.end(null)
      case error: Throwable => exchange.end(error)
    }

  /** Tells the source thread to end, and interrupts its read. Does not wait. Any thread, more than once. */
  def stop(): Unit = {
    exchange.close()
    thread.interrupt()
  }

  /**
   * Waits until the source thread has ended; false if it has not after `timeoutMs`. Any other thread.
   *
   * @throws InterruptedException if interrupted while waiting
   */
  @throws[InterruptedException]
  def awaitEnd(timeoutMs: Long): Boolean = {
    thread.join(math.max(1L, timeoutMs))
    !thread.isAlive
  }
}
