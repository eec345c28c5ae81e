package io.pillarbox.spark.keyed

import io.pillarbox.tags.Nightly
import org.apache.spark.sql.Row
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

/** What every backend and checkpoint format must do. */
class KeyedProcessSuite extends AnyFunSuite with KeyedFixture with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(60, Seconds), Span(50, Millis))

  private val kinds = for {
    backend <- Seq("heap", "rocksdb")
    format <- Seq("1", "2")
  } yield (backend, format)

  private val timed = Map("timer" -> "10")

  test("a batch counts per key and fires all event-time timers at the end of a key") {
    val events = Seq(Event("a", 1, 100), Event("b", 2, 200), Event("a", 3, 300))
    val rows = process(frame(events), Spec(options = timed, timestamp = Some("ts"))).collect().toSet
    assert(
      rows == Set(
        Row("a", "row", 1L, 1L),
        Row("a", "row", 2L, 3L),
        Row("b", "row", 1L, 2L),
        Row("a", "event", 2L, 110L),
        Row("a", "event", 2L, 310L),
        Row("b", "event", 1L, 210L)
      )
    )
  }

  kinds.foreach { case (backend, format) =>
    val tags = if (Set("heap" -> "1", "rocksdb" -> "2")(backend -> format)) Nil else Seq(Nightly)
    def kept(body: => Unit): Unit =
      withSettings(checkpointFormat(format) :+ "spark.pillarbox.state.snapshotEvery" -> "2": _*)(body)
    val spec = Spec(backend = backend, timers = backend, options = timed)

    test(
      s"$backend, format $format: state, timers and late rows over micro-batches and a restart",
      tags: _*
    ) {
      kept(withFolder { folder =>
        val stream = new Stream(folder)
        val result = process(stream.watermarked, spec)
        stream.running(result) { query =>
          stream.add(Event("a", 1, 1000), Event("b", 2, 1500))
          query.processAllAvailable()
          assert(
            stream.rows.toSet == Set(
              Row("a", "row", 1L, 1L),
              Row("b", "row", 1L, 2L),
              Row("a", "event", 1L, 1010L)
            )
          )
          stream.add(Event("a", 3, 2000))
          query.processAllAvailable()
        }
        stream.running(result) { query =>
          // 1000 is late: the watermark is at 2000.
          stream.add(Event("a", 4, 1000), Event("a", 5, 3000))
          query.processAllAvailable()
          // Progress is told a moment after the batch is done.
          eventually {
            val operators = query.recentProgress.flatMap(_.stateOperators)
            assert(operators.map(_.numRowsDroppedByWatermark).sum == 1)
            assert(operators.forall(_.operatorName == "pillarboxKeyedProcess"))
          }
        }
        val ofA = stream.rows
          .filter(_.getString(0) == "a")
          .map(r => (r.getString(1), r.getLong(2), r.getLong(3)))
          .toSet
        assert(
          ofA == Set(("row", 1, 1), ("row", 2, 3), ("row", 3, 5), ("event", 1, 1010), ("event", 3, 2010))
        )
        assert(stream.rows.contains(Row("b", "event", 1L, 1510L)))
      })
    }

    test(s"$backend, format $format: an attempt that fails leaves nothing behind", tags: _*) {
      kept(withFolder { folder =>
        val stream = new Stream(folder)
        val result = process(stream.watermarked, spec)
        stream.running(result) { query =>
          stream.add(Event("a", 1, 1000))
          query.processAllAvailable()
        }
        stream.add(Event("a", 2, 1100), Event("a", 3, 1200))
        val broken = process(stream.watermarked, spec.copy(options = timed + ("failAt" -> "3")))
        val error = intercept[Exception](stream.runOnce(broken))
        assert(causes(error).exists(_.contains("failing at 3")))
        stream.runOnce(result)
        assert(stream.rows.filter(_.getString(1) == "row").map(_.getLong(2)) == Seq(1, 2, 3))
      })
    }

    test(s"$backend, format $format: a long run goes on from snapshots", Nightly) {
      kept(withFolder { folder =>
        val stream = new Stream(folder)
        val result = process(stream.watermarked, spec)
        (1 to 4).foreach { run =>
          stream.running(result) { query =>
            (1 to 3).foreach { i =>
              stream.add(Event("a", i.toLong, run * 10000L + i * 1000L))
              query.processAllAvailable()
            }
          }
        }
        assert(stream.rows.filter(_.getString(1) == "row").map(_.getLong(2)) == (1L to 12L))
      })
    }
  }

  test("event-time timers without a watermark are refused, and the message says what to do") {
    withFolder { folder =>
      val stream = new Stream(folder)
      stream.add(Event("a", 1, 1000))
      val error = intercept[Exception](
        stream.runOnce(process(stream.input, Spec(options = timed, timestamp = Some("ts"))))
      )
      assert(
        causes(error).exists(
          _.contains("[TIMER_WITHOUT_WATERMARK] process_keyed(test): test registered an event-time timer")
        )
      )
    }
  }

  test("null keys are a group of their own") {
    val rows = process(frame(Seq(Event(null, 1, 1), Event("a", 2, 1), Event(null, 3, 1))), Spec()).collect()
    assert(rows.filter(_.isNullAt(0)).map(_.getLong(2)).sorted.toSeq == Seq(1, 2))
  }

  test("a key whose equal values have several forms and a missing class are refused") {
    val df = frame(Seq(Event("a", 1, 1)))
    val lowered = df.selectExpr("k COLLATE UTF8_LCASE AS c")
    val collated = intercept[IllegalArgumentException](process(lowered, Spec(by = Seq("c"))))
    assert(
      collated.getMessage.contains(
        "[KEY_COLLATION] process_keyed(test): The key column c has the type STRING COLLATE UTF8_LCASE"
      )
    )
    val noClass = intercept[Exception](process(df, Spec(className = "no.such.Class")).collect())
    assert(causes(noClass).exists(_.contains("no.such.Class is not on the executors' class path")))
  }
}
