package io.pillarbox.operator

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
