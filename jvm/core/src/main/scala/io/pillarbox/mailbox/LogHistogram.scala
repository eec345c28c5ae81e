package io.pillarbox.mailbox

/**
 * A histogram of non-negative longs in fixed memory (4 KB): 8 buckets a power of two, so a quantile is at most
 * 12.5 % above the value it stands for. `max` and `mean` are exact.
 *
 * One thread records; any thread may read, and gets values that are recent rather than exact.
 */
final class LogHistogram {
  import LogHistogram._

  private[this] val buckets = new Array[Long](Buckets)
  private[this] var total = 0L
  private[this] var sum = 0L
  private[this] var largest = 0L

  def record(value: Long): Unit = {
    val v = math.max(0L, value)
    buckets(bucketOf(v)) += 1
    total += 1
    sum += v
    if (v > largest) largest = v
  }

  def count: Long = total

  def max: Long = largest

  def mean: Double = if (total == 0) 0.0 else sum.toDouble / total.toDouble

  /**
   * The smallest bucket bound that at least the share `q` of the values does not exceed; 0 if there are none.
   *
   * @throws IllegalArgumentException unless 0 ≤ q ≤ 1
   */
  def quantile(q: Double): Long = {
    require(q >= 0.0 && q <= 1.0, s"A quantile lies between 0 and 1, not at $q")
    val rank = math.max(1L, math.ceil(q * total.toDouble).toLong)
    var seen = 0L
    var i = 0
    while (i < Buckets && seen < rank) {
      seen += buckets(i)
      i += 1
    }
    if (total == 0) 0L else math.min(upperBound(i - 1), largest)
  }
}

private object LogHistogram {
  private val SubBits = 3
  private val Sub = 1 << SubBits
  private val Buckets = (64 - SubBits) * Sub

  private def bucketOf(value: Long): Int =
    if (value < Sub) value.toInt
    else {
      val exponent = 63 - java.lang.Long.numberOfLeadingZeros(value)
      val mantissa = (value >>> (exponent - SubBits)).toInt & (Sub - 1)
      (exponent - SubBits + 1) * Sub + mantissa
    }

  private def upperBound(bucket: Int): Long =
    if (bucket < Sub) bucket.toLong
    else {
      val shift = bucket / Sub - 1
      ((Sub + bucket % Sub + 1).toLong << shift) - 1
    }
}
