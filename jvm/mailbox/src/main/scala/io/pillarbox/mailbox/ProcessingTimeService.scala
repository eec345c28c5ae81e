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
