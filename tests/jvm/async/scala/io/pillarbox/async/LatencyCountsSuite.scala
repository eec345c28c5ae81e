package io.pillarbox.async

import org.scalatest.funsuite.AnyFunSuite

class LatencyCountsSuite extends AnyFunSuite {
  import LatencyCounts._

  test("a bucket has what is not before its start and before that of the next") {
    val micros =
      (0L to 5000L) ++ (13 to 36).map(1L << _).flatMap(power => Seq(power - 1, power, power + power / 3))
    micros.foreach { micro =>
      val bucket = bucketOf(micro * 1000 + 999)
      assert(startOf(bucket) <= micro && micro < startOf(bucket + 1), micro)
    }
    assert((0 until Buckets).forall(bucket => bucketOf(startOf(bucket) * 1000) == bucket))
  }

  test("buckets from four microseconds on are a quarter wide at most; what is beyond the last is in it") {
    assert((4 until Buckets).forall(bucket => startOf(bucket + 1) <= startOf(bucket) * 5 / 4))
    assert(bucketOf(Long.MaxValue) == Buckets - 1 && bucketOf(-1L) == 0)
  }

  test("what is taken is what has come since the last time") {
    val counts = new LatencyCounts
    assert(counts.take().isEmpty)
    Seq(1000L, 1000L, 9000000L).foreach(counts.add)
    assert(counts.take().toSeq == Seq(1L, 2L, 2L, 8192L, 10240L, 1L))
    counts.add(1000L)
    assert(counts.take().toSeq == Seq(1L, 2L, 1L) && counts.take().isEmpty)
  }

  test("the median is the end of the bucket that has it, and unknown without any") {
    val counts = new LatencyCounts
    assert(counts.medianMicros == Long.MaxValue)
    Seq(10L, 10L, 10L, 20000L, 20000L).foreach(millis => counts.add(millis * 1000000))
    assert(counts.medianMicros == 10240)
    (1 to 2).foreach(_ => counts.add(20000L * 1000000))
    assert(counts.medianMicros >= 20000000)
  }
}
