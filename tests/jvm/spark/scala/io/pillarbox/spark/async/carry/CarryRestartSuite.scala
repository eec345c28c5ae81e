package io.pillarbox.spark.async.carry

import java.sql.Timestamp
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import io.pillarbox.spark.SpecBuilder
import io.pillarbox.spark.checkpoint.FlakyFiles
import io.pillarbox.spark.functions.Held
import io.pillarbox.spark.keyed.KeyedFixture
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{expr, max, window}
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryException}
import org.apache.spark.sql.{DataFrame, Row}
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

/** What may change at a restart, with calls in flight and without. */
class CarryRestartSuite extends AnyFunSuite with KeyedFixture with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(90, Seconds), Span(20, Millis))

  /** A query that is stopped and started again. */
  private final class Restarted(folder: java.nio.file.Path, system: String = "") {
    import spark.implicits._
    val memory: MemoryStream[Long] = MemoryStream[Long](spark)
    val rows = new ConcurrentLinkedQueue[Row]

    def input: DataFrame = memory.toDF().toDF("id")

    def running[A](df: DataFrame)(body: StreamingQuery => A): A =
      into((batch, _) => rows.addAll(batch.collect().toSeq.asJava): Unit)(df)(body)

    def into[A](sink: (DataFrame, Long) => Unit)(df: DataFrame)(body: StreamingQuery => A): A = {
      val query =
        df.writeStream.option("checkpointLocation", s"$system$folder/checkpoint").foreachBatch(sink).start()
      try body(query)
      finally query.stop()
    }

    def lastBatch: Long =
      folder.resolve("checkpoint/commits").toFile.list.flatMap(_.toLongOption).max

    /** True if Spark has noted its stateful operator. */
    def hasMetadata: Boolean = folder.resolve("checkpoint/state/0/_metadata").toFile.exists

    /** The query with another source, whose last micro-batch that counts is the one with the number. */
    def takenBack(batch: Long): Restarted = {
      for {
        log <- Seq("offsets", "commits")
        file <- folder.resolve(s"checkpoint/$log").toFile.listFiles
        if file.getName.filter(_.isDigit).toLongOption.exists(_ > batch)
      } file.delete()
      new Restarted(folder)
    }

    /** All rows that are there leave. */
    def drain(df: DataFrame, ids: Long*): Unit = {
      Held.answeredBelow = 100
      memory.addData(ids)
      running(df)(_.processAllAvailable())
    }

    /** Rows are called, and stay in flight by the checkpoint. */
    def leaveInFlight(df: DataFrame, ids: Long*): Unit = {
      Held.answeredBelow = 0
      memory.addData(ids)
      running(df)(query => eventually(assert(query.lastProgress != null && Held.held.size >= ids.size)))
    }

    def left: Seq[Long] = rows.asScala.toSeq.map(_.getLong(0)).sorted

    def refused(df: DataFrame, text: String, name: String = "CARRY_OVER_MISMATCH"): Unit = {
      val told = causes(intercept[StreamingQueryException](drain(df))).mkString
      assert(told.contains(name) && told.contains(text))
    }
  }

  private def carried(df: DataFrame, slots: Int = 1)(change: ObjectNode => Unit): DataFrame =
    SpecBuilder.asyncIO(df, classOf[Held], "x long") { spec =>
      spec.put("capacity", 9).putObject("carry_over").put("slots", slots)
      change(spec)
    }

  private def plain(df: DataFrame): DataFrame = carried(df)(_ => ())

  private def withQuery(format: String = "1", system: String = "")(body: Restarted => Unit): Unit =
    withSettings(checkpointFormat(format): _*)(withFolder { folder =>
      Held.reset(below = 0)
      body(new Restarted(folder, system))
    })

  for (format <- Seq("1", "2"))
    test(s"format $format: with nothing in flight slots and columns change") {
      withQuery(format) { query =>
        val (few, many) = if (format == "1") (1, 3) else (3, 3)
        query.drain(carried(query.input, few)(_ => ()), 1, 2)
        query.drain(carried(query.input, many)(_ => ()), 3, 4, 5)
        query.drain(carried(query.input, slots = 2)(_.put("on_error", "column"): Unit), 6)
        query.drain(carried(query.input.withColumn("y", expr("id + 1")), slots = 2)(_ => ()), 7, 8)
        assert(query.left == (1L to 8L))
      }
    }

  test("under format 2 Spark can't have more slots than the checkpoint has") {
    withQuery("2") { query =>
      query.drain(plain(query.input), 1)
      query.refused(carried(query.input, slots = 2)(_ => ()), "slots 1", "CHECKPOINT_MISMATCH")
      query.drain(plain(query.input), 2)
      assert(query.left == Seq(1, 2))
    }
  }

  test("slots of format 2 that were taken away and never committed can be had again") {
    withQuery("2") { query =>
      query.drain(carried(query.input, slots = 3)(_ => ()), 1)
      query.memory.addData(2L)
      query.into((_, _) => throw new IllegalStateException("the sink"))(
        carried(query.input, slots = 2)(_ => ())
      )(running => intercept[StreamingQueryException](running.processAllAvailable()))
      query.drain(carried(query.input, slots = 3)(_ => ()), 3)
      assert(query.left == Seq(1, 2, 3))
    }
  }

  for (format <- Seq("1", "2"))
    test(s"format $format: a query that is taken back behind a change of slots has what all of them held") {
      withQuery(format) { query =>
        def of(query: Restarted, slots: Int) = carried(query.input, slots)(_ => ())
        query.memory.addData(1L)
        query.leaveInFlight(of(query, 2), 2)
        query.drain(of(query, 2))
        query.drain(of(query, 1), 3)
        val again = query.takenBack(0)
        Seq(1L, 2L).foreach(again.memory.addData(_))
        Held.answeredBelow = 0
        again.memory.addData(3L)
        again.refused(of(again, 1), "slots 2, the query now has 1")
        again.drain(of(again, 2))
        assert(again.left == Seq(1, 2, 3))
      }
    }

  test("slots that go and come again have nothing of a history that the query was taken back from") {
    withQuery() { query =>
      query.drain(carried(query.input, slots = 2)(_ => ()), 9)
      val last = query.lastBatch
      Seq(1L, 3L, 5L, 7L).foreach { id =>
        query.memory.addData(id)
        query.leaveInFlight(carried(query.input, slots = 2)(_ => ()), id + 1)
      }
      val again = query.takenBack(last)
      again.memory.addData(9L)
      again.drain(plain(again.input), 1, 2)
      assert(again.left == Seq(1, 2))
      again.drain(carried(again.input, slots = 2)(_ => ()), 5)
      assert(again.left == Seq(1, 2, 5))
    }
  }

  test("a source of one partition has all slots where it is repartitioned, and one slot elsewhere") {
    for ((partitions, started) <- Seq(1 -> 1, 2 -> 2)) withQuery() { query =>
      def few(df: DataFrame) = carried(df, slots = 2)(_.put("capacity", 1): Unit)
      query.memory.addData(1L, 2L)
      query.running(few(query.input.repartition(partitions))) { running =>
        eventually(assert(Held.started.get == started))
        if (started == 2) eventually(assert(running.lastProgress != null))
        Held.answeredBelow = 100
        Held.held.asScala.foreach { case (id, future) => future.completeOne(Row(id)) }
        running.processAllAvailable()
      }
      assert(query.left == Seq(1, 2))
    }
  }

  test("slots that come anew number their calls apart from those that were there") {
    withQuery() { query =>
      val ids = for (slots <- Seq(1, 2, 1)) yield {
        query.leaveInFlight(carried(query.input, slots)(_ => ()), slots.toLong)
        val id = Held.held.asScala.last._2.callId
        query.drain(carried(query.input, slots)(_ => ()))
        id
      }
      assert(ids.distinct == ids)
    }
  }

  test("with rows in flight other slots and columns are refused, and the query goes on as it was") {
    withQuery() { query =>
      query.leaveInFlight(plain(query.input), 1)
      query.refused(carried(query.input, slots = 2)(_ => ()), "slots 1, the query now has 2")
      query.refused(carried(query.input)(_.put("on_error", "column"): Unit), "returns")
      query.refused(plain(query.input.withColumn("y", expr("id"))), "the input columns")
      query.drain(plain(query.input), 2)
      assert(query.left == Seq(1, 2))
    }
  }

  private def without(df: DataFrame): DataFrame =
    SpecBuilder.asyncIO(df, classOf[Held], "x long")(_.put("capacity", 9): Unit)

  for (format <- Seq("1", "2"))
    test(s"format $format: carry-over is added and taken away while nothing is in flight") {
      withQuery(format) { query =>
        query.drain(without(query.input), 1)
        query.drain(plain(query.input), 2)
        query.leaveInFlight(plain(query.input), 3)
        query.refused(without(query.input), "calls are in flight", "CARRY_OVER_REMOVED")
        query.drain(plain(query.input), 4)
        query.drain(without(query.input), 5)
        query.drain(without(query.input), 6)
        if (format == "2") query.refused(plain(query.input), "checkpoint format 2", "CARRY_OVER_ADDED")
        else query.drain(plain(query.input), 7)
        assert(query.left == (if (format == "2") 1L to 6L else 1L to 7L))
      }
    }

  test("calls that are carried over anew have new ids, and a query goes back behind both changes") {
    withQuery() { query =>
      def ids = Held.held.asScala.toSeq.map(_._2.callId)
      query.leaveInFlight(plain(query.input), 1)
      val first = ids
      query.drain(plain(query.input), 2)
      val before = query.lastBatch
      query.drain(without(query.input), 3)
      Held.reset(below = 0)
      query.leaveInFlight(plain(query.input), 4)
      assert((first ++ ids).distinct.size == 2)
      query.drain(plain(query.input))
      val back = query.takenBack(before)
      // The source has what it had before.
      Seq(1L, 2L).foreach(back.memory.addData(_))
      back.drain(plain(back.input), 5)
      assert(query.left ++ back.left == Seq(1, 2, 3, 4, 5))
    }
  }

  for (again <- Seq(true, false))
    test(s"a query is taken back into the time without carry-over, and goes on with it: $again") {
      withQuery() { query =>
        query.drain(plain(query.input), 1)
        query.drain(without(query.input), 2)
        val last = query.lastBatch
        query.drain(without(query.input), 3)
        query.drain(plain(query.input), 4)
        val back = query.takenBack(last)
        Seq(1L, 2L).foreach(back.memory.addData(_))
        if (!again) Seq(5L, 6L, 7L, 8L, 9L).foreach(id => back.drain(without(back.input), id))
        back.drain(plain(back.input), 10)
        back.leaveInFlight(plain(back.input), 11)
        back.drain(plain(back.input))
        assert(back.left == (if (again) Seq(10, 11) else 5L to 11L))
      }
    }

  for (format <- Seq("1", "2"))
    test(s"format $format: carry-over that was taken away comes again if no micro-batch was done without") {
      withQuery(format) { query =>
        def failing(df: DataFrame): Unit =
          query.into((_, _) => throw new IllegalStateException("the sink"))(df) { running =>
            intercept[StreamingQueryException](running.processAllAvailable()): Unit
          }
        query.drain(plain(query.input), 1)
        query.memory.addData(2L)
        (1 to 2).foreach(_ => failing(without(query.input)))
        query.drain(plain(query.input), 3)
        assert(query.hasMetadata)
        query.leaveInFlight(plain(query.input), 4)
        query.drain(plain(query.input))
        query.drain(without(query.input), 5)
        assert(query.left == (1L to 5L))
        assert(!query.hasMetadata)
      }
    }

  test("beside another stateful operator carry-over is neither added nor taken away") {
    withQuery() { query =>
      query.drain(without(query.input).select("id", "x").distinct(), 1)
      query.refused(plain(query.input).select("id", "x").distinct(), "other stateful", "CARRY_OVER_ADDED")
    }
    withQuery() { query =>
      query.drain(plain(query.input).select("id", "x").distinct(), 1)
      query.refused(without(query.input).select("id", "x").distinct(), "other stateful", "CARRY_OVER_REMOVED")
    }
  }

  private def nullable(query: Restarted) = query.input.withColumn("v", expr("nullif(id, 1)"))
  private def notNull(query: Restarted) = query.input.withColumn("v", expr("coalesce(nullif(id, 1), 0L)"))

  test("a column that takes nulls from now on is taken with rows in flight") {
    withQuery() { query =>
      query.leaveInFlight(plain(notNull(query)), 1, 2)
      query.drain(plain(nullable(query)), 1)
      assert(query.rows.asScala.map(row => Option(row.get(1))).toSet == Set(Some(0L), Some(2L), None))
    }
  }

  // Of a union the plan of a micro-batch has only the inputs with new rows, and knows of their nulls alone.
  test("a column that takes no nulls from now on has those of rows in flight") {
    withQuery() { query =>
      query.leaveInFlight(plain(nullable(query)), 1)
      query.drain(plain(notNull(query)).withColumn("w", expr("coalesce(v, -1L)")))
      assert(query.rows.asScala.toSeq == Seq(Row(1L, null, 1L, -1L)))
      query.leaveInFlight(plain(nullable(query)), 2)
      query.drain(plain(nullable(query).where("v is not null")).withColumn("w", expr("v + 1")), 2)
      assert(query.left.toSet == Set(1, 2))
    }
  }

  test("what a plan knows of its rows' columns is not known of rows in flight") {
    def withV(query: Restarted, value: String) = plain(query.input.withColumn("v", expr(value)))
    withQuery() { query =>
      query.leaveInFlight(withV(query, "nullif(id, 1L)"), 1)
      // By the plan no v is null.
      query.drain(withV(query, "coalesce(id, 0L)").where("v IS NOT NULL"))
      assert(query.rows.isEmpty)
    }
    withQuery() { query =>
      def ofId = carried(query.input.withColumn("v", expr("id + 1")))(_.putArray("inputs").add("id"): Unit)
      query.leaveInFlight(ofId, 1)
      // By the plan nothing needs v.
      query.drain(ofId.select("id", "x"))
      assert(query.rows.asScala.toSeq == Seq(Row(1L, 1L)))
    }
    withQuery() { query =>
      query.leaveInFlight(withV(query, "struct(nullif(id, 1L) AS a)"), 1)
      query.drain(withV(query, "struct(coalesce(id, 0L) AS a)"))
      assert(query.rows.asScala.toSeq == Seq(Row(1L, Row(null), 1L)))
    }
  }

  test("an estimate takes the nulls of rows in flight") {
    def limited(df: DataFrame) = carried(df) { spec =>
      val limit = spec.putArray("limits").addObject().put("scope", "executor").put("unit", "tokens")
      limit
        .put("estimate_sql", "coalesce(v, 1)")
        .putObject("rate")
        .put("permits", 100)
        .put("interval_ms", 1000)
    }
    withQuery() { query =>
      query.leaveInFlight(limited(nullable(query)), 1)
      query.drain(limited(notNull(query)))
      assert(query.left == Seq(1))
    }
  }

  test("the largest capacity works, with and without an order") {
    withQuery() { query =>
      for (ordered <- Seq(true, false))
        query.drain(carried(query.input)(_.put("ordered", ordered).put("capacity", 1000000000): Unit), 1, 2)
      assert(query.left == Seq(1, 1, 2, 2))
    }
  }

  test("a comment on a column is no other layout") {
    withQuery() { query =>
      import spark.implicits._
      def commented(text: String) = {
        val metadata = new org.apache.spark.sql.types.MetadataBuilder().putString("comment", text).build()
        query.input.withColumn("v", $"id".as("v", metadata))
      }
      query.leaveInFlight(plain(commented("before")), 1)
      query.drain(plain(commented("after")))
      assert(query.left == Seq(1))
    }
  }

  /** As if another executor had run the action before. */
  private def closeIdleSlots(): Unit = for {
    partition <- OpenSlots.partitions
    open <- OpenSlots.checkOut(partition)
  } if (open.hasNothing) open.slot.close() else OpenSlots.checkIn(partition, open)

  test(
    "a slot's folder is listed where it may hold a version that no open slot tells of; the rows are the same"
  ) {
    for (actions <- Seq(1, 2)) withQuery(system = "flaky:") { query =>
      val lists = new ConcurrentLinkedQueue[String]
      Held.answeredBelow = 100
      FlakyFiles.listed = path => if (path.toString.endsWith("/state/0/0")) lists.add(path.toString): Unit
      try
        query.into { (batch, _) =>
          val results = Seq.fill(actions) {
            closeIdleSlots()
            batch.collect().toSeq
          }
          assert(results.distinct.size == 1)
          query.rows.addAll(results.head.asJava): Unit
        }(plain(query.input)) { running =>
          Seq(1L, 2L, 3L).foreach { id =>
            query.memory.addData(id)
            running.processAllAvailable()
          }
        }
      finally FlakyFiles.listed = _ => ()
      assert(query.left == Seq(1, 2, 3))
      assert(Held.started.get == 3)
      assert(lists.isEmpty == (actions == 1), lists)
    }
  }

  test("calls keep their ids when the function gets another name and another operator comes after it") {
    withQuery() { query =>
      query.leaveInFlight(carried(query.input)(_.put("name", "a").put("signature", "a"): Unit), 1)
      def next = carried(query.input)(_.put("name", "b").put("signature", "b"): Unit).drop("x")
      val twice = SpecBuilder.asyncIO(next, classOf[Held], "x long")(_.put("signature", "b"): Unit)
      query.leaveInFlight(twice)
      eventually(assert(Held.held.size == 2))
      assert(Held.held.asScala.map(_._2.callId).toSet.size == 1)
      query.drain(twice)
      assert(query.left == Seq(1))
    }
  }

  test("a row holds back each watermark that it has a time of") {
    withSettings(
      "spark.sql.shuffle.partitions" -> "1",
      // All micro-batches count, and without input there are many.
      "spark.sql.streaming.numRecentProgressUpdates" -> "100000"
    )(withQuery() { query =>
      import spark.implicits._
      val (left, right) = (MemoryStream[(Long, Timestamp)](spark), MemoryStream[(Long, Timestamp)](spark))
      val timed = left
        .toDF()
        .toDF("id", "a")
        .withWatermark("a", "0 seconds")
        .join(right.toDF().toDF("id", "b").withWatermark("b", "0 seconds"), "id")
      val windows = plain(timed).groupBy(window($"b", "5 seconds")).agg(max("id").as("id"), max("a"))
      Held.answeredBelow = 5
      query.running(windows.selectExpr("id", "window.start")) { running =>
        def add(id: Long, a: Long, b: Long): Unit = {
          left.addData((id, new Timestamp(a * 1000)))
          right.addData((id, new Timestamp(b * 1000)))
          eventually(assert(running.recentProgress.map(_.numInputRows).sum == 2 * id || !running.isActive))
          running.exception.foreach(throw _)
        }
        add(1, a = 10, b = 10)
        Held.answeredBelow = 0
        add(2, a = 100, b = 12)
        Held.answeredBelow = 100
        Seq(20, 30, 40).zip(3L to 5L).foreach { case (time, id) => add(id, time.toLong, time.toLong) }
        Held.held.asScala.foreach { case (id, future) => future.completeOne(Row(id)) }
        add(6, a = 1000, b = 1000)
        add(7, a = 2000, b = 2000)
        running.processAllAvailable()
      }
      assert(query.rows.asScala.exists(_.getLong(0) == 2), query.rows)
    })
  }
}
