package io.pillarbox.spark.keyed

import java.nio.file.{Files, Path}
import java.sql.Timestamp
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import io.pillarbox.spark.checkpoint.{Attempt, StateFileFormat, StateFolder}
import io.pillarbox.spark.state.{OpenStates, StateMaintenance, StateTaskSpec}
import io.pillarbox.tags.Nightly
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.apache.spark.sql.functions.{count, window}
import org.apache.spark.sql.pillarbox.ReplanningSink
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row}
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

/** Keyed operators as part of streaming queries. */
class StreamingBehaviourSuite extends AnyFunSuite with KeyedFixture with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(90, Seconds), Span(50, Millis))

  private def rowsOf(stream: Stream): Seq[Long] =
    stream.rows.filter(_.getString(1) == "row").map(_.getLong(2))

  test("a processing-time timer wakes the query up once, and nothing runs without a due timer") {
    withFolder { folder =>
      val stream = new Stream(folder)
      stream.add(Event("a", 1, 1000))
      stream.running(process(stream.watermarked, Spec(options = Map("clock" -> "300")))) { query =>
        eventually(assert(stream.rows.map(_.getString(1)) == Seq("row", "clock")))
        query.processAllAvailable()
        // One for the row, one for the timer, and at most one for the watermark that the row moved.
        assert(stream.batches.size <= 3)
        eventually {
          val custom = query.recentProgress.flatMap(_.stateOperators).map(_.customMetrics.asScala)
          assert(custom.map(_.apply(KeyedMetrics.ProcessingTimersFired).toLong).sum == 1)
        }
      }
    }
  }

  Seq("timer" -> "event", "clock" -> "clock").foreach { case (option, what) =>
    Seq("1", "2").foreach { format =>
      test(
        s"$what timers that are due wake a restarted query without input, once; checkpoint format $format"
      ) {
        withSettings(checkpointFormat(format): _*)(withFolder { folder =>
          val stream = new Stream(folder)
          def result = process(stream.watermarked, Spec(options = Map(option -> "1")))
          stream.add(Event("a", 1, 1000), Event("b", 1, 1000))
          // The run ends with the timers due and not fired.
          withSettings("spark.sql.streaming.noDataMicroBatches.enabled" -> "false") {
            stream.runOnce(result)
            stream.add(Event("c", 1, 9000))
            stream.runOnce(result)
          }
          val fired = stream.rows.count(_.getString(1) == what)
          val before = stream.batches.size
          stream.runOnce(result)
          assert(stream.rows.count(_.getString(1) == what) == fired + (if (what == "event") 2 else 1))
          assert(stream.batches.size == before + 1)
          stream.runOnce(result)
          val query = stream.start(result, trigger = Trigger.AvailableNow())
          assert(query.awaitTermination(90000))
          assert(stream.batches.size == before + 1)
        })
      }
    }
  }

  test(
    "a timer that comes due while a restarted query waits wakes it, and the checks of a restart are made"
  ) {
    withFolder { folder =>
      val stream = new Stream(folder)
      stream.add(Event("a", 1, 1000))
      val counted = process(stream.input, Spec(options = Map("clock" -> "2000")))
      stream.runOnce(counted)
      if (!stream.rows.exists(_.getString(1) == "clock"))
        stream.running(counted) { _ =>
          eventually(assert(stream.rows.map(_.getString(1)) == Seq("row", "clock")))
        }
      stream.add(Event("a", 1, 1000))
      intercept[Exception](stream.runOnce(process(stream.input, Spec(by = Seq("v")))))
    }
  }

  Seq("heap", "rocksdb").foreach { backend =>
    test(
      s"$backend: the progress counts rows of state: all, updated, removed; also after a restart; and late rows"
    ) {
      withFolder { folder =>
        val stream = new Stream(folder)
        val spec = Spec(classOf[KeepsOdd].getName, backend, backend, timestamp = Some("ts"))
        def figures(query: StreamingQuery): (Long, Long, Long) = {
          query.processAllAvailable()
          eventually {
            val progress = query.recentProgress.filter(_.numInputRows > 0)
            val operator = progress.last.stateOperators.head
            assert(progress.last.batchId == stream.batches.lastKey)
            (operator.numRowsTotal, operator.numRowsUpdated, operator.numRowsRemoved)
          }
        }
        // Without no-data batches, a batch is a progress.
        withSettings("spark.sql.streaming.noDataMicroBatches.enabled" -> "false") {
          stream.running(process(stream.watermarked, spec)) { query =>
            stream.add((1 to 10).map(i => Event(i.toString, 1, 5000)): _*)
            assert(figures(query) == ((10, 10, 0)))
            stream.add((1 to 4).map(i => Event(i.toString, 2, 5001)): _*)
            assert(figures(query) == ((6, 0, 4)))
          }
          stream.running(process(stream.watermarked, spec)) { query =>
            stream.add(Event("5", 3, 5002), Event("11", 1, 5002), Event("late", 1, 1000))
            assert(figures(query) == ((7, 2, 0)))
            val operator = query.recentProgress.filter(_.numInputRows > 0).last.stateOperators.head
            assert(operator.numRowsDroppedByWatermark == 1)
            if (backend == "rocksdb") assert(operator.memoryUsedBytes > 0)
            assert(operator.customMetrics.get(StateTaskSpec.CommitBytes) > 0)
          }
        }
      }
    }
  }

  test("a function of the JVM whose state expires by event time does not get late rows") {
    withFolder { folder =>
      val stream = new Stream(folder)
      val spec = Spec(classOf[ExpiresByEventTime].getName, returns = "k string")
      stream.running(process(stream.watermarked, spec)) { query =>
        Seq(5000, 5001, 1000).foreach { time =>
          stream.add(Event(time.toString, 1, time.toLong))
          query.processAllAvailable()
        }
      }
      assert(stream.rows.map(_.getString(0)) == Seq("5000", "5001"))
    }
  }

  Seq("process", "output").foreach { onLate =>
    test(s"late rows of a function of the JVM: $onLate") {
      withFolder { folder =>
        val stream = new Stream(folder)
        val late = StructType.fromDDL("tag string not null, late struct<k string, v bigint, ts timestamp>")
        val column = if (onLate == "output") s""","late":${late.json}""" else ""
        val spec = Spec(
          classOf[TellsLate].getName,
          returns = "k string, is_late boolean",
          extra = s""","on_late":"$onLate"$column"""
        )
        stream.running(process(stream.watermarked, spec)) { query =>
          Seq(5000, 5001).foreach { time =>
            stream.add(Event("c", 1, time.toLong))
            query.processAllAvailable()
          }
          stream.batches.clear()
          stream.add(Event("a", 1, 1000), Event("b", 1, 6000))
          query.processAllAvailable()
        }
        val rows = stream.rows.map(row => Row.fromSeq(row.toSeq)).toSet
        if (onLate == "process") assert(rows == Set(Row("a", true), Row("b", false)))
        else {
          val row = Row("a", 1L, new Timestamp(1000))
          assert(rows == Set(Row("late", null, null, row), Row("main", "b", false, null)))
        }
      }
    }
  }

  test("partitions without rows or due timers are left alone, once their states are known") {
    withSettings(
      "spark.sql.shuffle.partitions" -> "4",
      "spark.sql.streaming.noDataMicroBatches.enabled" -> "false"
    )(
      withFolder { folder =>
        val stream = new Stream(folder)
        val result = process(stream.watermarked, Spec(options = Map("timer" -> "5000")))
        def quiet(query: StreamingQuery, events: Event*): Long = {
          stream.add(events: _*)
          query.processAllAvailable()
          eventually {
            val progress = query.recentProgress.filter(_.numInputRows > 0).last
            assert(progress.batchId == stream.batches.lastKey)
            progress.stateOperators.head.customMetrics.get(KeyedMetrics.QuietPartitions).toLong
          }
        }
        stream.running(result) { query =>
          assert(quiet(query, (1 to 40).map(i => Event(i.toString, 1, 1000)): _*) == 0)
          assert(quiet(query, Event("1", 2, 3000)) == 3)
          assert(quiet(query, Event("late", 2, 100)) == 3)
          assert(quiet(query, Event("1", 3, 7000)) == 3)
          // Now the watermark is past the timers of the first batch, which are everywhere.
          assert(quiet(query, Event("1", 4, 7000)) == 0)
          assert(stream.rows.count(_.getString(1) == "event") == 40)
        }
        stream.running(result)(query => assert(quiet(query, Event("1", 5, 9000)) == 0))
        assert(rowsOf(stream).takeRight(4) == Seq(2, 3, 4, 5))
      }
    )
  }

  test("availableNow ends although a processing-time timer waits") {
    withFolder { folder =>
      val stream = new Stream(folder)
      stream.add(Event("a", 1, 1000))
      val result = process(stream.watermarked, Spec(options = Map("clock" -> "3600000")))
      val query = stream.start(result, trigger = Trigger.AvailableNow())
      try assert(query.awaitTermination(90000))
      finally query.stop()
      assert(rowsOf(stream) == Seq(1))
    }
  }

  test("Spark's window aggregation after ours, and ours after ours, in one query") {
    withFolder { folder =>
      val stream = new Stream(folder)
      val passing = Spec(
        form = "scan",
        extra =
          ""","scan":{"state":[{"name":"n","init":"0L","update":"n + 1"}],"select":["k","v","ts","n"]}"""
      )
      val first = process(stream.watermarked, passing.copy(timestamp = Some("ts")))
      val again = passing.copy(extra = passing.extra.replace("\"n\"", "\"m\"").replace("n + 1", "m + n"))
      val second = process(first, again.copy(timestamp = Some("ts")))
      val counted = second.groupBy(window(second("ts"), "1 second")).agg(count("*").as("rows"))
      stream.running(counted) { query =>
        Seq(Seq(1000L, 1500L, 2500L), Seq(1200L, 5000L), Seq(9000L)).foreach { times =>
          stream.add(times.map(Event("a", 1, _)): _*)
          query.processAllAvailable()
        }
        eventually(assert(Option(query.lastProgress).exists(_.stateOperators.length == 3)))
      }
      // 1200 is late after the watermark came to 2500.
      assert(stream.rows.map(_.getLong(1)) == Seq(2, 1, 1))
    }
  }

  test("state stays open between micro-batches, and is closed once the query has ended") {
    withFolder { folder =>
      val stream = new Stream(folder)
      def open = OpenStates.partitions.filter(_.checkpoint.contains(folder.getFileName.toString))
      stream.running(process(stream.input, Spec(backend = "rocksdb", timers = "rocksdb"))) { query =>
        Seq(1L, 2L).foreach { v =>
          stream.add(Event("a", v, 1000))
          query.processAllAvailable()
        }
        // Progress is told a moment after the batch is done.
        eventually {
          val operators = query.recentProgress.filter(_.numInputRows > 0).map(_.stateOperators.head)
          assert(operators.map(_.customMetrics.get(StateTaskSpec.BackendReused).toLong).toSeq == Seq(0, 2))
        }
        StateMaintenance.unloadInactive()
        assert(open.size == 2)
      }
      StateMaintenance.unloadInactive()
      assert(open.isEmpty)
    }
  }

  Seq("heap", "rocksdb").foreach { backend =>
    test(
      s"$backend: state that an attempt left open stays in use, whatever another attempt writes afterwards"
    ) {
      withFolder { folder =>
        val stream = new Stream(folder)
        def result = process(stream.input, Spec(backend = backend, timers = backend))
        stream.running(result) { query =>
          stream.add(Event("a", 1, 1000))
          query.processAllAvailable()
          (0 until 2).foreach(partition => addAttempt(folder, partition, version = 1))
          stream.add(Event("a", 2, 1000))
          query.processAllAvailable()
          eventually {
            val operators = query.recentProgress.filter(_.numInputRows > 0).map(_.stateOperators.head)
            assert(operators.map(_.customMetrics.get(StateTaskSpec.BackendReused).toLong).toSeq == Seq(0, 2))
          }
        }
        stream.add(Event("a", 3, 1000))
        stream.runOnce(result)
        assert(rowsOf(stream) == Seq(1, 2, 3))
      }
    }
  }

  for { backend <- Seq("heap", "rocksdb"); format <- Seq("1", "2") } test(
    s"$backend, format $format: of two actions of foreachBatch the last one's state counts, and stays open",
    Seq(Nightly).filter(_ => (backend == "heap") == (format == "1")): _*
  ) {
    withSettings(checkpointFormat(format): _*)(withFolder { folder =>
      val stream = new Stream(folder)
      val drawn = process(stream.input, Spec(classOf[Draws].getName, backend, backend))
      val query = drawn.writeStream
        .option("checkpointLocation", folder.toString)
        .foreachBatch { (batch: DataFrame, id: Long) =>
          batch.collect()
          stream.batches.put(id, batch.collect().toSeq): Unit
        }
        .start()
      try {
        (1 to 4).foreach { v =>
          stream.add(Event("a", v.toLong, 1000), Event("b", v.toLong, 1000))
          query.processAllAvailable()
        }
        stream.rows.groupBy(_.getString(0)).values.foreach { rows =>
          assert(rows.map(_.getLong(2)) == 0L +: rows.map(_.getLong(3)).init)
        }
        eventually {
          val operators = query.recentProgress.filter(_.numInputRows > 0).map(_.stateOperators.head)
          val reused = operators.map(_.customMetrics.get(StateTaskSpec.BackendReused).toLong)
          assert(reused.toSeq == Seq(0, 2, 2, 2))
        }
      } finally query.stop()
    })
  }

  /**
   * What an attempt of another executor does that comes late: writes the same version once more, under its
   * own id. It was started later, too: a copy of a task.
   */
  private def addAttempt(folder: Path, partition: Int, version: Long): Unit = {
    val files =
      new StateFolder(new HadoopPath(folder.resolve(s"state/0/$partition").toUri), new Configuration)
    val Seq(file) = files.list().filter(_.version == version)
    val another = Attempt(1, Long.MaxValue).newId()
    var parts = Seq.empty[Array[Byte]]
    val header = files.read(file) { in =>
      StateFileFormat.read(in, "it")(state => parts :+= state.readAllBytes())(timers =>
        parts :+= timers.readAllBytes()
      )
    }
    files.write(file.copy(id = Some(another))) { out =>
      StateFileFormat.write(out, header.copy(id = another))(_.write(parts.head))(_.write(parts.last))
    }: Unit
  }

  Seq("1" -> "2", "2" -> "1").foreach { case (first, other) =>
    test(
      s"checkpoint format $other is refused by a checkpoint of format $first, which goes on when it is set back"
    ) {
      withFolder { folder =>
        val stream = new Stream(folder)
        def run(format: String): Unit = withSettings(checkpointFormat(format): _*) {
          stream.runOnce(process(stream.input, Spec()))
        }
        stream.add(Event("a", 1, 1000))
        run(first)
        stream.add(Event("a", 2, 1000))
        (1 to 2).foreach { _ =>
          val error = intercept[Exception](run(other))
          val message =
            s"spark.sql.streaming.stateStore.checkpointFormatVersion $first, the query now has $other"
          assert(causes(error).exists(_.contains(message)), causes(error).mkString("\n"))
        }
        assert(rowsOf(stream) == Seq(1))
        run(first)
        stream.add(Event("a", 3, 1000))
        run(first)
        assert(rowsOf(stream) == Seq(1, 2, 3))
      }
    }
  }

  test("a query that is started again with another number of partitions goes on with its state") {
    withFolder { folder =>
      val stream = new Stream(folder)
      val keys = (1 to 20).map(i => Event(i.toString, i.toLong, 1000))
      stream.add(keys: _*)
      stream.runOnce(process(stream.input, Spec()))
      stream.add(keys: _*)
      withSettings("spark.sql.shuffle.partitions" -> "5")(stream.runOnce(process(stream.input, Spec())))
      assert(rowsOf(stream).groupBy(identity).view.mapValues(_.size).toMap == Map(1L -> 20, 2L -> 20))
    }
  }

  test("another form, other keys and other sorting are refused before any data are touched") {
    withFolder { folder =>
      val stream = new Stream(folder)
      stream.add(Event("a", 1, 1000))
      stream.runOnce(process(stream.watermarked, Spec()))
      stream.add(Event("a", 1, 1000))
      val scan =
        Spec(form = "scan", extra = ""","scan":{"state":[{"name":"n","init":"0","update":"n + 1"}]}""")
      Seq(
        scan -> "the form jvm, the query now has scan",
        Spec(by = Seq("v")) -> "keys of type STRING, the query now has BIGINT",
        Spec(timeSorted = true) -> "time_sorted false, the query now has true"
      ).foreach { case (other, message) =>
        val error = intercept[Exception](stream.runOnce(process(stream.watermarked, other)))
        assert(causes(error).exists(_.contains(message)), causes(error).mkString("\n"))
      }
    }
  }

  test("state gets nullable fields and wider numbers; another change shows both schemas") {
    withFolder { folder =>
      val stream = new Stream(folder)
      def run(schema: String): Unit = {
        stream.add(Event("a", 7, 1000))
        val spec = Spec(className = classOf[LastRow].getName, options = Map("schema" -> schema))
        stream.runOnce(process(stream.input, spec))
      }
      run("n int")
      run("n bigint, s string")
      run("n bigint, s string, x double")
      assert(stream.rows.map(_.getString(1)) == Seq("none", "[7,null]", "[7,a,null]"))
      val error = intercept[Exception](run("n string"))
      assert(
        causes(error).exists(m => m.contains("s STRING") && m.contains("n STRING")),
        causes(error).mkString("\n")
      )
    }
  }

  test("a delta that was cut short fails the query with the file's name") {
    withFolder { folder =>
      val stream = new Stream(folder)
      stream.add(Event("a", 1, 1000))
      stream.runOnce(process(stream.input, Spec()))
      deltas(folder).foreach(file => Files.write(file, Files.readAllBytes(file).dropRight(9)))
      stream.add(Event("a", 2, 1000))
      val error = intercept[Exception](stream.runOnce(process(stream.input, Spec())))
      assert(
        causes(error).exists(_.matches("(?s).*/1_r1t\\d+-[0-9a-f-]+\\.delta is damaged.*")),
        causes(error).mkString("\n")
      )
    }
  }

  test("files of old versions go away") {
    withSettings(
      "spark.sql.streaming.minBatchesToRetain" -> "2",
      "spark.pillarbox.state.snapshotEvery" -> "2"
    ) {
      withFolder { folder =>
        val stream = new Stream(folder)
        stream.running(process(stream.input, Spec())) { query =>
          (1 to 8).foreach { i =>
            stream.add(Event("a", i.toLong, 1000))
            query.processAllAvailable()
            awaitMaintenance()
          }
        }
        assert(deltas(folder).forall(_.getFileName.toString.takeWhile(_.isDigit).toInt >= 4))
        stream.add(Event("a", 9, 1000))
        stream.runOnce(process(stream.input, Spec()))
        assert(rowsOf(stream) == (1L to 9L))
      }
    }
  }

  test("a query restarted after an error in the middle of a row gives each row once") {
    withFolder { folder =>
      val failures = new AtomicInteger
      Count.beforeRow.set((row: Row) =>
        if (row.getLong(1) % 3 == 0 && failures.incrementAndGet() % 2 == 1)
          throw new IllegalStateException("now and then")
      )
      try {
        val stream = new Stream(folder)
        val result = process(stream.input, Spec(backend = "rocksdb"))
        (1 to 6).foreach { i =>
          stream.add(Event("a", i.toLong, 1000))
          eventually(stream.runOnce(result))
        }
        assert(failures.get == 4)
        assert(rowsOf(stream) == (1L to 6L))
      } finally Count.beforeRow.set(_ => ())
    }
  }

  test("a sink that plans a micro-batch anew runs it once") {
    withFolder { folder =>
      val seen = new AtomicInteger
      Count.beforeRow.set(_ => seen.incrementAndGet(): Unit)
      try {
        val stream = new Stream(folder)
        stream.add(Event("a", 1, 1000), Event("b", 1, 1000))
        val query = process(stream.input, Spec(backend = "rocksdb")).writeStream
          .format(classOf[ReplanningSink].getName)
          .option("checkpointLocation", folder.toString)
          .start()
        try query.processAllAvailable()
        finally query.stop()
        assert(seen.get == 2)
      } finally Count.beforeRow.set(_ => ())
    }
  }

  private def deltas(folder: Path): Seq[Path] = {
    val files = Files.walk(folder.resolve("state"))
    try {
      val found = files.iterator.asScala.filter(_.getFileName.toString.matches("\\d+_.+\\.delta")).toSeq
      found.foreach(file => Files.deleteIfExists(file.resolveSibling(s".${file.getFileName}.crc")))
      found
    } finally files.close()
  }
}
