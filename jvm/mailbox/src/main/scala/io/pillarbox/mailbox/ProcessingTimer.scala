package io.pillarbox.mailbox

/**
 * A timer of a [[ProcessingTimeService]]; extend it to give an object its timer without a further allocation.
 *
 * It is in at most one service at a time. Mailbox thread only.
 */
private[pillarbox] abstract class ProcessingTimer {
  private[mailbox] var heapIndex: Int = ProcessingTimer.NotScheduled
  private[mailbox] var dueMs: Long = 0L

  /**
   * Runs on the mailbox thread, once each time the timer was scheduled, not before its time. What it throws
   * fails the task.
   *
   * @param timestampMs the time it was scheduled for
   */
  @throws[Exception]
  def onProcessingTime(timestampMs: Long): Unit

  /** True if it waits for its time. */
  final def isScheduled: Boolean = heapIndex != ProcessingTimer.NotScheduled
}

private[mailbox] object ProcessingTimer {
  val NotScheduled: Int = -1
}
