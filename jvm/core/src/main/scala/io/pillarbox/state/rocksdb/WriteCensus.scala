package io.pillarbox.state.rocksdb

/**
 * Counts, among writes of which it is unknown whether they add an entry, those that do: the first of them all, then a random
 * sample, for asking RocksDB costs more than the write. So a count of many is exact where either all or none add one, and
 * right on average elsewhere. Not thread-safe.
 */
private[rocksdb] final class WriteCensus {
  import WriteCensus._

  private[this] var asked = 0
  private[this] var random = 0x2545f4914f6cdd1dL

  /** How many writes the next one stands for in the count; 0: it need not be looked at. */
  def weight(): Int =
    if (asked < Exact) {
      asked += 1
      1
    } else if (isSampled()) OneIn
    else 0

  /** By Marsaglia's xorshift. */
  private[this] def isSampled(): Boolean = {
    random ^= random << 13
    random ^= random >>> 7
    random ^= random << 17
    (random >>> 58) == 0L
  }
}

private object WriteCensus {
  final val Exact = 1000
  final val OneIn = 64
}
