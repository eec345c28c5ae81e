package io.pillarbox.state.rocksdb.entries

/**
 * Counts, among writes of which it is unknown whether they add an entry, those that do: the first of them
 * all, then a random sample, since asking RocksDB costs more than the write. So a count of many is exact
 * where either all or none add one, and right on average elsewhere. RocksDB's estimate of its keys counts
 * each overwrite until a compaction, and not the entries that the cache holds back. Not thread-safe.
 */
private[rocksdb] final class WriteCensus {
  import WriteCensus._

  private var asked = 0
  private val sample = new Sample(OneInBits)

  /** The number of writes that the next one stands for in the count; 0 if it need not be looked at. */
  def weight(): Int =
    if (asked < Exact) {
      asked += 1
      1
    } else if (sample.isNext()) OneIn
    else 0
}

private object WriteCensus {
  final val Exact = 1000
  final val OneInBits = 6
  final val OneIn: Int = 1 << OneInBits
}

/** Picks one in `2^bits` at random, by Marsaglia's xorshift. Not thread-safe. */
private[rocksdb] final class Sample(bits: Int) {
  private var random = 0x2545f4914f6cdd1dL

  def isNext(): Boolean = {
    random ^= random << 13
    random ^= random >>> 7
    random ^= random << 17
    (random >>> (64 - bits)) == 0L
  }
}
