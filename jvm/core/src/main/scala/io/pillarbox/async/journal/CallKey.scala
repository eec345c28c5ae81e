package io.pillarbox.async.journal

/** Names a call by what it asks: 128 bits of a hash in which no two are equal by accident. */
private[pillarbox] final case class CallKey(high: Long, low: Long) {

  /** Its bits are spread already. */
  override def hashCode: Int = (low ^ (low >>> 32)).toInt

  /** 32 hexadecimal digits. */
  override def toString: String = f"$high%016x$low%016x"
}
