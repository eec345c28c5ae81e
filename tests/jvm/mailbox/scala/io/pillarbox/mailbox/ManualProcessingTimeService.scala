package io.pillarbox.mailbox

/**
 * Processing time that a test moves by hand. Timers that become due are sent as mail at once; run the mailbox
 * to see them fire.
 */
final class ManualProcessingTimeService(executor: MailboxExecutor, startMs: Long)
    extends MailTimers(executor) {
  @volatile private var now = startMs
  private var woken = false

  def this(executor: MailboxExecutor) = this(executor, 0L)

  override def nanoTime: Long = now * 1000000L

  override def processingTimeAt(nanos: Long): Long = nanos / 1000000L

  /**
   * Moves the clock. Mailbox thread.
   *
   * @throws IllegalArgumentException if that would be backwards
   */
  def advanceTo(timestampMs: Long): Unit = {
    require(timestampMs >= now, s"Processing time can't go back from $now to $timestampMs")
    now = timestampMs
    wakeAt(earliestMs)
  }

  def advanceBy(ms: Long): Unit = advanceTo(now + ms)

  /** The time of the next timer; `Long.MaxValue` if there is none. */
  def nextTimerMs: Long = earliestMs

  override private[mailbox] def wakeAt(timestampMs: Long): Unit = if (timestampMs <= now && !woken) {
    woken = true
    wake()
  }

  override private[mailbox] def onWoken(): Unit = woken = false
}
