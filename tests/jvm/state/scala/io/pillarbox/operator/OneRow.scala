package io.pillarbox.operator

/** Rows that come one at a time: [[put]], then steps of the schedule until the row is taken. */
private[operator] final class OneRow[R] extends Rows[R] {
  private var hasNext = false
  private var value: R = _
  private var timestamp = Output.NoTimestamp

  /** The next row. The one before must have been taken. */
  def put(row: R, time: Long): Unit = {
    value = row
    timestamp = time
    hasNext = true
  }

  override def advance(): Boolean = {
    val has = hasNext
    hasNext = false
    has
  }

  override def row: R = value

  override def time: Long = timestamp
}

/** Gives a function the very rows and keys. */
private[operator] final class PlainView[K, R](keySelector: R => K) extends FunctionTarget.View[K, R, K, R] {
  override def keyOf(row: R): K = keySelector(row)
  override def key(key: K): K = key
  override def input(row: R): R = row
}
