package io.pillarbox.spark.state

import java.util.SplittableRandom
import java.util.function.LongSupplier

import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.scalatest.funsuite.AnyFunSuite

/** What a sample of a partition's rows tells of its keys. */
class HotKeysSuite extends AnyFunSuite {
  private val random = new Random(3)

  private def newKeys(nanoTime: LongSupplier = () => System.nanoTime): HotKeys =
    new HotKeys(nanoTime, new SplittableRandom(3))

  private def keyOf(id: Long): UnsafeRow = {
    val row = new UnsafeRow(1)
    row.pointTo(new Array[Byte](16), 16)
    row.setLong(0, id)
    row
  }

  /** Returns the number of rows in the sample. */
  private def feed(keys: HotKeys, rows: Int)(next: Int => Long): Int =
    (0 until rows).count { row =>
      val isNext = keys.isNext
      if (isNext) keys.add(keyOf(next(row)))
      isNext
    }

  test("the first rows are all in the sample, and of many one in a thousand") {
    val keys = newKeys()
    assert(feed(keys, 100)(_ => 1L) == 100 && keys.rows == 100)
    val more = feed(keys, 1000000)(_ => 1L)
    assert(more > 1000 && more < 5000)
    assert(math.abs(keys.rows - 1000100) <= 2048)
    assert(keys.hottest.contains(keyOf(1L) -> keys.rows))
  }

  test("the hottest key and its share are found among many keys, in any order of rows") {
    for (isSorted <- Seq(false, true)) {
      val keys = newKeys()
      feed(keys, 1000000) { row =>
        val isHot = if (isSorted) row >= 400000 && row < 600000 else random.nextInt(5) == 0
        if (isHot) -1L else if (isSorted) row / 10L else random.nextInt(100000).toLong
      }
      val Some((key, rows)) = keys.hottest
      assert(key == keyOf(-1L))
      assert(math.abs(rows / keys.rows - 0.2) < 0.05, isSorted)
    }
  }

  test("none of many equal keys has a share that is shown") {
    val keys = newKeys()
    feed(keys, 300000)(_ => random.nextInt(1000).toLong): Unit
    assert(keys.hottest.forall { case (_, rows) => rows < keys.rows * 0.05 })
  }

  test("the weight of a row halves each minute, though no report is due") {
    var now = 0L
    val keys = newKeys(() => now)
    feed(keys, 100)(_ => 1L): Unit
    now += 120L * 1000 * 1000 * 1000
    keys.add(keyOf(2L))
    assert(keys.rows == 26 && keys.hottest.contains(keyOf(1L) -> 25.0))
  }

  test("a report is due at first, and then when some time has passed") {
    val keys = newKeys()
    assert(keys.isReportDue(Long.MaxValue) && !keys.isReportDue(Long.MaxValue) && keys.isReportDue(0L))
  }
}
