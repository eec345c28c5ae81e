package io.pillarbox.operator

/**
 * The order in which a key's rows and timers run, and the watermark that each of them sees. Mailbox thread
 * only.
 *
 * There are three: [[ArrivalOrder]] and [[TimeSortedOrder]] in streams, [[BatchOrder]] for static data. In
 * all of them
 *   - a key's timers of a kind fire in the order of their times, also those that are registered by what
 *     fires;
 *   - a timer that was deleted before its turn does not fire, and one that was registered again fires once;
 *   - event-time timers that are due come before processing-time timers, and after those again, until none is
 *     due;
 *   - processing-time timers see the watermark as it stands;
 *   - the watermark that a key sees never falls.
 *
 * Its owner steps it: one event a step, given to the target.
 */
private[pillarbox] trait KeyedSchedule {

  /** Gives the target an event or moves on; returns false if nothing is left to do, as far as is known. */
  def step(): Boolean
}

private[pillarbox] object KeyedSchedule {

  /** The last time before `time`; there is none before the earliest. */
  private[operator] def before(time: Long): Long = if (time == Long.MinValue) time else time - 1
}

/** The rows that a [[KeyedSchedule]] puts into order, one at a time. Mailbox thread only. */
private[pillarbox] trait Rows[R] {

  /**
   * Goes on to the next row; false if there is none, for now or for ever. The row before is no longer valid,
   * so it must have been processed. Mail of other operators may run meanwhile.
   */
  def advance(): Boolean

  /** The row, valid until the next [[advance]]. */
  def row: R

  /** Its time in milliseconds since 1970, [[Output.NoTimestamp]] if it has none. */
  def time: Long
}
