package io.pillarbox.state

/** Maps hashes to key groups, and key groups to partitions. Stable across versions: it is written to disk. */
object KeyGroups {

  /**
   * The key group of a key whose stable hash is `hash`, among `maxKeyGroups`.
   *
   * The hash is mixed with MurmurHash3's 32-bit finaliser (Austin Appleby, public domain), since the hashes of
   * small integers differ in their low bits only.
   */
  def keyGroupOf(hash: Int, maxKeyGroups: Int): Int = {
    var h = hash
    h = (h ^ (h >>> 16)) * 0x85ebca6b
    h = (h ^ (h >>> 13)) * 0xc2b2ae35
    h ^= h >>> 16
    (h & Int.MaxValue) % maxKeyGroups
  }

  /**
   * The range that partition `index` of `parallelism` owns.
   *
   * @throws IllegalArgumentException if `parallelism` exceeds `maxKeyGroups`, or the index is out of bounds
   */
  def rangeOf(maxKeyGroups: Int, parallelism: Int, index: Int): KeyGroupRange = {
    require(
      parallelism > 0 && parallelism <= maxKeyGroups,
      s"$parallelism partitions can't share $maxKeyGroups key groups: use 1 to $maxKeyGroups partitions"
    )
    require(index >= 0 && index < parallelism, s"Partition $index is not one of $parallelism")
    val start = (index.toLong * maxKeyGroups + parallelism - 1) / parallelism
    val end = ((index + 1L) * maxKeyGroups - 1) / parallelism
    KeyGroupRange(start.toInt, end.toInt)
  }
}
