package io.pillarbox.async

/**
 * Counts latencies by buckets: four between a power of two of microseconds and the next, so that a bucket is
 * at most a quarter wider than where it begins. One thread writes and another takes, which may see counts that
 * are a little old.
 */
private[pillarbox] final class LatencyCounts {
  import LatencyCounts._

  private val counts = new Array[Long](Buckets)
  private val taken = new Array[Long](Buckets)

  def add(nanos: Long): Unit = counts(bucketOf(nanos)) += 1

  /**
   * The microseconds at which the bucket ends that has the median of all; `Long.MaxValue` without any. The
   * thread that writes.
   */
  def medianMicros: Long = {
    var left = (counts.sum + 1) / 2
    var bucket = -1
    while (left > 0) {
      bucket += 1
      left -= counts(bucket)
    }
    if (bucket < 0) Long.MaxValue else startOf(bucket + 1)
  }

  /**
   * Returns what has come since the last time: for each bucket that has got some, where it begins and ends, in
   * microseconds, and their number.
   */
  def take(): Array[Long] = {
    val found = Array.newBuilder[Long]
    for (bucket <- counts.indices) {
      val now = counts(bucket)
      if (now > taken(bucket)) found += startOf(bucket) += startOf(bucket + 1) += now - taken(bucket)
      taken(bucket) = now
    }
    found.result()
  }
}

private[pillarbox] object LatencyCounts {

  /** The last one begins at about 33 hours. */
  final val Buckets = 144

  def bucketOf(nanos: Long): Int = {
    val micros = nanos / 1000
    if (micros < 4) math.max(0L, micros).toInt
    else {
      val power = 63 - java.lang.Long.numberOfLeadingZeros(micros)
      math.min(Buckets - 1, ((power - 1) << 2) + ((micros >>> (power - 2)) & 3).toInt)
    }
  }

  /** Returns the microseconds at which a bucket begins. */
  def startOf(bucket: Int): Long =
    if (bucket < 4) bucket.toLong else (4L + (bucket & 3)) << ((bucket >> 2) - 1)
}
