package io.pillarbox.mailbox

/**
 * The timers of one task in a heap, and the mail that fires those that are due. Subclasses keep the clock,
 * and see to it that `wake` is called when the earliest timer is due.
 */
private[pillarbox] abstract class MailTimers private[mailbox] (executor: MailboxExecutor)
    extends ProcessingTimeService {
  private val heap = new TimerHeap
  @volatile private var closed = false

  override final def schedule(timer: ProcessingTimer, timestampMs: Long): Unit = if (!closed) {
    heap.schedule(timer, timestampMs)
    if (timestampMs <= heap.earliestMs) wakeAt(timestampMs)
  }

  override final def cancel(timer: ProcessingTimer): Boolean = heap.remove(timer)

  override final def scheduledTimers: Int = heap.size

  private[mailbox] final def earliestMs: Long = heap.earliestMs

  /** Mailbox thread: there is a timer for `timestampMs` and none before it. */
  private[mailbox] def wakeAt(timestampMs: Long): Unit

  /**
   * Sends the mail that fires. Any thread.
   *
   * @throws java.util.concurrent.RejectedExecutionException if the mailbox no longer accepts mail
   */
  private[mailbox] final def wake(): Unit = executor.execute(() => fireDue(), "fire processing-time timers")

  /** Fires a bounded number, so that timers which keep registering others leave room for other mail. */
  private def fireDue(): Unit = {
    onWoken()
    // A callback that throws fails this mail, not the timers that are left.
    try fireSome(currentProcessingTime)
    finally if (!heap.isEmpty && !closed) wakeAt(heap.earliestMs)
  }

  private def fireSome(now: Long): Unit = {
    var left = MailTimers.MaxPerMail
    while (left > 0 && !closed && heap.earliestMs <= now && !heap.isEmpty) {
      val timer = heap.pollDue(now)
      timer.onProcessingTime(timer.dueMs)
      left -= 1
    }
  }

  /** Mailbox thread: the wake-up that was armed has come. */
  private[mailbox] def onWoken(): Unit

  override def close(): Unit = closed = true
}

private[mailbox] object MailTimers {
  val MaxPerMail = 256
}
