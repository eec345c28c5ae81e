package io.pillarbox.mailbox

/**
 * The processing time of a task, and timers on it. Timers fire as mail, so never on the thread that keeps the
 * time, in the order of their times. Mailbox thread only, except the clocks and `close`.
 */
private[pillarbox] trait ProcessingTimeService {

  /** Milliseconds since 1970. It never runs backwards. Any thread. */
  final def currentProcessingTime: Long = processingTimeAt(nanoTime)

  /** Nanoseconds of the same clock from an arbitrary origin. Any thread. */
  def nanoTime: Long

  /**
   * The processing time at a moment of `nanoTime`, so that one reading of the clock serves for both. Any
   * thread.
   */
  def processingTimeAt(nanos: Long): Long

  /**
   * The first millisecond that begins at or after a moment of `nanoTime`: a wait that is counted from there
   * is never too short. Any thread.
   */
  final def roundedUp(nanos: Long): Long = processingTimeAt(nanos + 999999L)

  /**
   * Lets `timer` fire at `timestampMs`, at once if that has passed. A scheduled timer is moved to the new
   * time.
   */
  def schedule(timer: ProcessingTimer, timestampMs: Long): Unit

  /** Cancels the timer; false if it had fired already or was never scheduled. */
  def cancel(timer: ProcessingTimer): Boolean

  /** The number of timers that wait. */
  def scheduledTimers: Int

  /** Ends all timers: none fires any more, and none is taken. Any thread. */
  def close(): Unit
}

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
