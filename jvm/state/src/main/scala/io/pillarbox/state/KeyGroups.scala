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
