package io.pillarbox.queue

/**
 * The key groups that one queue owns: `start` to `end`, both included. An element belongs to exactly one key
 * group for ever.
 */
private[pillarbox] final case class KeyGroupRange(start: Int, end: Int) {
  require(start >= 0 && end >= start, s"A key-group range needs 0 <= start <= end, found [$start, $end]")

  def size: Int = end - start + 1

  def contains(keyGroup: Int): Boolean = keyGroup >= start && keyGroup <= end

  /** Refuses a key group that is not of the range. */
  def check(keyGroup: Int, what: Any): Unit = if (!contains(keyGroup))
    throw new IllegalArgumentException(
      s"Key group $keyGroup ($what) is outside of this queue's key groups $this: " +
        "the key was sent to the wrong partition, or its hash changed"
    )

  override def toString: String = s"[$start, $end]"
}
