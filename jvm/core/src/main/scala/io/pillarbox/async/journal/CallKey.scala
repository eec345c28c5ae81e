package io.pillarbox.async.journal

/**
 * Names a call by what it asks: 128 bits of a hash in which no two are equal by accident.
 *
 * @param values
 *   what was hashed of the row itself, for readers of a journal; not compared
 */
private[pillarbox] final class CallKey(val high: Long, val low: Long, val values: Array[Byte]) {

  /** The key under which the answer of this call to one operator is found. */
  def of(operator: JournalOperator): CallKey = CallKey(high ^ operator.high, low ^ operator.low)

  override def equals(other: Any): Boolean = other match {
    case key: CallKey => high == key.high && low == key.low
    case _ => false
  }

  /** Its bits are spread already. */
  override def hashCode: Int = (low ^ (low >>> 32)).toInt

  /** 32 hexadecimal digits. */
  override def toString: String = f"$high%016x$low%016x"
}

private[pillarbox] object CallKey {
  private val NoValues = Array.emptyByteArray

  def apply(high: Long, low: Long, values: Array[Byte] = NoValues): CallKey = new CallKey(high, low, values)
}
