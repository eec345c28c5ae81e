package io.pillarbox.spark.keyed

import scala.util.Random

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions.{col, element_at, typedLit}
import org.apache.spark.sql.types.MetadataBuilder
import org.scalatest.funsuite.AnyFunSuite

/** Time-sorted input: the same rows come out of a batch and of any cutting into micro-batches. */
class TimeSortedSuite extends AnyFunSuite with ScanFixture {
  private val spec =
    Spec(timestamp = Some("ts"), timeSorted = true, options = Map("timer" -> "15", "ttl" -> "40"))

  /** Far behind all others, so that the watermark passes everything. */
  private val last = Event("end", 0, 1000000)

  private def data(random: Random): Seq[Event] =
    Seq.fill(60)(Event(random.nextInt(4).toString, random.nextInt(5).toLong, 10L * random.nextInt(40) + 1000))

  /** Rows of the far event's key differ: its last timer has not fired in a stream. */
  private def relevant(rows: Seq[Row]): Map[String, Seq[Row]] =
    rows.filter(_.getString(0) != "end").groupBy(_.getString(0))

  test("each key's rows and timers come in time order, a row before a timer of its time") {
    val events = Seq(Event("a", 1, 30), Event("a", 2, 10), Event("a", 3, 25), Event("a", 4, 70))
    val rows = process(frame(events), spec.copy(options = Map("timer" -> "15"))).collect().toSeq
    assert(
      rows.map(r => (r.getString(1), r.getLong(2), r.getLong(3))) == Seq(
        ("row", 1, 2),
        ("row", 2, 3),
        ("event", 2, 25),
        ("row", 3, 1),
        ("event", 3, 40),
        ("event", 3, 45),
        ("row", 4, 4),
        ("event", 4, 85)
      )
    )
  }

  test("rows wait whatever the plan of a micro-batch says of their nulls") {
    withFolder { folder =>
      val stream = new Stream(folder)
      def run(value: String, events: Event*): Unit = {
        stream.add(events: _*)
        val rows = stream.watermarked.selectExpr("k", s"$value AS v", "ts")
        stream.runOnce(process(rows, spec.copy(options = Map.empty)))
      }
      val mayBeNull = "if(v < 0, NULL, v)"
      run(mayBeNull, Event("a", 1, 1000))
      run("coalesce(v, 0L)", Event("a", 2, 2000))
      run(mayBeNull, Event("a", 3, 3000), last)
      run("coalesce(v, 0L)", Event("b", 4, 1100000))
      assert(stream.rows.filter(_.getString(0) == "a").map(_.getLong(2)) == Seq(1L, 2L, 3L))
    }
  }

  test("a null that waits stays one, whatever the plan says in which its row leaves") {
    withFolder { folder =>
      val stream = new Stream(folder)
      val sums = scan(Seq(("n", "0L", "n + coalesce(v, 100L)")), Seq("k", "v", "v IS NULL AS isNull", "n"))
      def run(value: String, events: Event*): Unit = {
        stream.add(events: _*)
        val rows = stream.watermarked.selectExpr("k", s"$value AS v", "ts")
        stream.runOnce(process(rows, sums.copy(timestamp = Some("ts"), timeSorted = true)))
      }
      run("nullif(v, 1L)", Event("a", 2, 1000), Event("a", 1, 1000))
      run("coalesce(v, 0L)", last)
      run("coalesce(v, 0L)", Event("b", 4, 1100000))
      val expected = Seq(Row("a", null, true, 100L), Row("a", 2L, false, 102L))
      assert(stream.rows.filter(_.getString(0) == "a") == expected)
    }
  }

  Seq("heap", "rocksdb").foreach { backend =>
    test(s"$backend: a batch and every cutting into micro-batches give the same rows in the same order") {
      val random = new Random(7)
      val events = data(random)
      val expected = relevant(process(frame(events :+ last), spec).collect().toSeq)
      // Within one micro-batch rows may come in any order: the watermark is not advanced before its end.
      Seq(1, 5).foreach { cuts =>
        withFolder { folder =>
          val stream = new Stream(folder)
          val inOrder = events.sortBy(_.t)
          val size = (inOrder.size + cuts - 1) / cuts
          stream.running(process(stream.watermarked, spec.copy(backend = backend, timers = backend))) {
            query =>
              // A time is not divided: rows at the watermark are late.
              cutsOf(inOrder, size).foreach { part =>
                stream.add(random.shuffle(part): _*)
                query.processAllAvailable()
              }
              stream.add(last)
              query.processAllAvailable()
          }
          assert(relevant(stream.rows) == expected, s"in $cuts parts")
        }
      }
    }
  }

  test("time-sorted input without a time in a row is refused") {
    val withNull = frame(Seq(Event("a", 1, 1))).selectExpr("k", "v", "CAST(NULL AS TIMESTAMP) AS ts")
    val error = intercept[Exception](process(withNull, spec).collect())
    assert(
      causes(error).exists(
        _.contains(
          "[TIMESTAMP_MISSING] process_keyed(test): time_sorted=True needs a time in every row, but ts is null in Row(k='a', v=1, ts=None)"
        )
      )
    )
  }

  test("order_by sorts a key's rows within a batch") {
    val events = Random.shuffle((1 to 50).map(i => Event((i % 3).toString, i.toLong, 0)))
    val rows = process(frame(events), Spec(orderBy = Seq("v"))).collect().groupBy(_.getString(0)).values
    assert(rows.forall(ofKey => ofKey.map(_.getLong(3)).toSeq == ofKey.map(_.getLong(3)).sorted.toSeq))
  }

  test("rows of a tagged union come by time, or as order_by says, and then in the order of its inputs") {
    val tags = Array("rates", "orders", "control")
    val marks = new MetadataBuilder().putStringArray("pillarbox.tags", tags).build()
    val isTime = new MetadataBuilder().putBoolean("pillarbox.time", value = true).build()
    // The value is the place in the order: by time, and then by input.
    val events = Random.shuffle((0 until 60).map { i =>
      val (place, time) = (i % 3, i % 5)
      Event((i % 2).toString, 10L * time + place, 1000L + time)
    })
    val tag = element_at(typedLit(tags), (col("v") % 10 + 1).cast("int"))
    val union = frame(events).select(col("k"), col("v"), col("ts").as("ts", isTime), tag.as("tag", marks))
    Seq(Spec(), Spec(orderBy = Seq("ts")), Spec(timeSorted = true), Spec(inputs = Seq("k", "v"))).foreach {
      spec =>
        val rows = process(union, spec).collect().groupBy(_.getString(0)).values
        assert(rows.forall(ofKey => ofKey.map(_.getLong(3)).toSeq == ofKey.map(_.getLong(3)).sorted.toSeq))
    }
  }

  private def cutsOf(events: Seq[Event], size: Int): Seq[Seq[Event]] =
    if (events.isEmpty) Nil
    else {
      val end = events(math.min(size, events.size) - 1).t
      val (part, rest) = events.span(_.t <= end)
      part +: cutsOf(rest, size)
    }
}
