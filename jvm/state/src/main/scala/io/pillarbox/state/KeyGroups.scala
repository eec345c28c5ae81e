package io.pillarbox.state

/** Maps hashes to key groups. Stable across versions: it is written to disk. */
private[pillarbox] object KeyGroups {

  /**
   * The key group of a key whose stable hash is `hash`, among `maxKeyGroups`.
   *
   * The hash is mixed with MurmurHash3's 32-bit finaliser (Austin Appleby, public domain), since the hashes
   * of small integers differ in their low bits only.
   */
  def keyGroupOf(hash: Int, maxKeyGroups: Int): Int = {
    var h = hash
    h = (h ^ (h >>> 16)) * 0x85ebca6b
    h = (h ^ (h >>> 13)) * 0xc2b2ae35
    h ^= h >>> 16
    (h & Int.MaxValue) % maxKeyGroups
  }
}

/**
 * The key groups that one partition owns: `start` to `end`, both included.
 *
 * A key belongs to exactly one key group for ever (see [[KeyGroups]]), a key group to exactly one partition
 * at a time, so state can be re-partitioned without reading the keys.
 */
private[pillarbox] final case class KeyGroupRange(start: Int, end: Int) {
  require(start >= 0 && end >= start, s"A key-group range needs 0 <= start <= end, found [$start, $end]")

  def size: Int = end - start + 1

  def contains(keyGroup: Int): Boolean = keyGroup >= start && keyGroup <= end

  /** Refuses a key group that is not of the range. */
  def check(keyGroup: Int, what: Any): Unit = if (!contains(keyGroup))
    throw new IllegalArgumentException(
      s"Key group $keyGroup ($what) is outside of this partition's key groups $this: " +
        "the key was sent to the wrong partition, or its hash changed"
    )

  override def toString: String = s"[$start, $end]"
}
