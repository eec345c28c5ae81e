package io.pillarbox.spark.keyed

import org.apache.spark.sql.{AnalysisException, Row}
import org.scalatest.funsuite.AnyFunSuite

class ScanSuite extends AnyFunSuite with ScanFixture {

  private val counting = scan(
    Seq(
      ("n", "0L", "n + 1"),
      ("total", "0", "total + v"),
      ("most", "CAST(NULL AS BIGINT)", "greatest(most, v)")
    ),
    Seq("k", "v", "n", "total", "most * 2 AS twice")
  )

  private val events = Seq(Event("a", 5, 1), Event("b", 1, 2), Event("a", 7, 3), Event("a", 9, 4))

  private val expected = Set(
    Row("a", 5L, 1L, 5L, 10L),
    Row("a", 7L, 2L, 12L, 14L),
    Row("a", 9L, 3L, 21L, 18L),
    Row("b", 1L, 1L, 1L, 2L)
  )

  test("a batch: SQL expressions over row and state; the sum becomes wide enough") {
    val result = process(frame(events), counting)
    assert(result.schema.map(_.name) == Seq("k", "v", "n", "total", "twice"))
    assert(result.schema("total").dataType.sql == "BIGINT")
    assert(result.collect().toSet == expected)
  }

  Seq("heap", "rocksdb").foreach { backend =>
    test(s"$backend: a stream in parts, with a restart, in update mode") {
      withFolder { folder =>
        val stream = new Stream(folder)
        events.grouped(2).foreach { part =>
          stream.add(part: _*)
          stream.runOnce(process(stream.input, counting.copy(backend = backend)), mode = "update")
        }
        assert(stream.rows.toSet == expected)
      }
    }
  }

  test("state lives as long as its TTL of event time") {
    withFolder { folder =>
      val stream = new Stream(folder)
      val spec = scan(Seq(("n", "0L", "n + 1")), Seq("v", "n"), """{"ms":50,"time_domain":"event_time"}""")
      stream.running(process(stream.watermarked, spec)) { query =>
        // Rows are processed under the watermark that late rows were dropped by: two micro-batches behind.
        val times = Seq("a" -> 1000L, "a" -> 1040L, "b" -> 1200L, "b" -> 1300L, "a" -> 1350L)
        times.zipWithIndex.foreach { case ((key, time), i) =>
          stream.add(Event(key, i.toLong, time))
          query.processAllAvailable()
        }
      }
      assert(stream.rows.map(_.getLong(1)) == Seq(1, 2, 1, 2, 1))
    }
  }

  test("no select gives the columns of the row and of the state") {
    assert(process(frame(events), scan(Seq(("n", "0L", "n + 1")))).columns.toSeq == Seq("k", "v", "ts", "n"))
  }

  test("inputs leaves only those columns besides key and time") {
    val spec = scan(Seq(("n", "0L", "n + 1"))).copy(inputs = Seq("v"))
    assert(process(frame(events), spec).columns.toSeq == Seq("k", "v", "n"))
    val timed = process(frame(events), spec.copy(timestamp = Some("ts"), inputs = Seq("k"), orderBy = Nil))
    assert(timed.columns.toSeq == Seq("k", "ts", "n"))
  }

  test("0.0 and -0.0 are one key, and so are all NaN") {
    import spark.implicits._
    val other = java.lang.Double.longBitsToDouble(0x7ff8000000000001L)
    val keys = Seq(0.0 -> 1L, -0.0 -> 2L, Double.NaN -> 3L, other -> 4L).toDF("k", "v")
    val counts =
      process(keys, scan(Seq(("n", "0L", "n + 1")), Seq("n"))).collect().map(_.getLong(0)).sorted.toSeq
    assert(counts == Seq(1, 1, 2, 2))
  }

  test("an unknown column, a state with a column's name and a state without a type are refused") {
    intercept[AnalysisException](process(frame(events), scan(Seq(("n", "0L", "n + nope")))))
    val taken = intercept[IllegalArgumentException](process(frame(events), scan(Seq(("v", "0L", "v + 1")))))
    assert(taken.getMessage.contains("the state v has the name of a column"))
    val untyped = intercept[IllegalArgumentException](process(frame(events), scan(Seq(("n", "NULL", "n")))))
    assert(untyped.getMessage.contains("CAST(NULL AS ...)"))
  }
}
