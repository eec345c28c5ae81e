package io.pillarbox.metered.journal

/**
 * Identifies a call by its request: 128 bits of a hash in which no two are equal by accident.
 *
 * @param values the hashed values of the row itself, for readers of a journal; not compared
 */
private[pillarbox] final class CallKey(val high: Long, val low: Long, val values: Array[Byte]) {

  /** The key under which the answer of this call to one operator is found. */
  def of(operator: JournalOperator): CallKey = CallKey(high ^ operator.high, low ^ operator.low)

  /** The key of what is submitted after so many tickets for it were given up; each has one of its own. */
  def ofRound(round: Int): CallKey = if (round == 0) this else CallKey(high, low + round, values)

  override def equals(other: Any): Boolean = other match {
    case key: CallKey => high == key.high && low == key.low
    case _ => false
  }

  /** Takes bits of the hash, which are spread already. */
  override def hashCode: Int = (low ^ (low >>> 32)).toInt

  /** Returns 32 hexadecimal digits. */
  override def toString: String = f"$high%016x$low%016x"
}

private[pillarbox] object CallKey {
  private val NoValues = Array.emptyByteArray

  def apply(high: Long, low: Long, values: Array[Byte] = NoValues): CallKey = new CallKey(high, low, values)
}
