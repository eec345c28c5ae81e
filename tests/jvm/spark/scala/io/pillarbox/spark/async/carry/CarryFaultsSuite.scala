package io.pillarbox.spark.async.carry

import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{ConcurrentSkipListMap, Executors, ScheduledExecutorService, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.{Random, Try}

import io.pillarbox.api.{AsyncFunction, ResultFuture}
import io.pillarbox.spark.SpecBuilder
import io.pillarbox.spark.checkpoint.FlakyFiles
import io.pillarbox.spark.keyed.KeyedFixture
import io.pillarbox.tags.Nightly
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.{DataFrame, Row}
import org.scalatest.funsuite.AnyFunSuite

/**
 * Every row leaves once, in order if asked for, with and without faults, from a varying number of partitions.
 */
class CarryFaultsSuite extends AnyFunSuite with KeyedFixture {

  private val rounds = 15
  private val ids = 0L until rounds * 6L

  /** The rows that left, in order, of a query that is started again whenever it fails. */
  private def runAll(checkpoint: String, ordered: Boolean): Seq[Row] = {
    import spark.implicits._
    val memory = MemoryStream[Long](spark)
    val batches = new ConcurrentSkipListMap[Long, Seq[Row]]
    val carried = SpecBuilder.asyncIO(memory.toDF().toDF("id"), classOf[Unsteady], "x long") { spec =>
      val slots = if (ordered) 1 else 2
      spec.put("ordered", ordered).put("capacity", 4).putObject("carry_over").put("slots", slots): Unit
    }
    def start() = carried.writeStream
      .option("checkpointLocation", checkpoint)
      .foreachBatch((batch: DataFrame, id: Long) => batches.put(id, batch.collect().toSeq): Unit)
      .start()
    ids.grouped(6).zipWithIndex.foreach { case (round, number) =>
      // Each call adds a partition.
      round.grouped(1 + number % 6).foreach(memory.addData(_))
      // Every third query is stopped while calls are in flight.
      if (number % 3 < 2) getThrough(start())
      else
        Try(start()).foreach { query =>
          Try(query.awaitTermination(number * 20L))
          query.stop()
        }
    }
    getThrough(start())
    batches.values.asScala.flatten.toSeq
  }

  private def check(rows: Seq[Row], ordered: Boolean): Unit = {
    assert((if (ordered) rows else rows.sortBy(_.getLong(0))) == ids.map(id => Row(id, id * 2)))
  }

  for {
    ordered <- Seq(true, false)
    format <- Seq("1", "2")
  } {
    val settings = checkpointFormat(format) ++ Seq(
      "spark.pillarbox.state.snapshotEvery" -> "2",
      "spark.sql.streaming.minBatchesToRetain" -> "3"
    )

    test(
      s"ordered $ordered, format $format: calls that fail at random are made again",
      Nightly
    ) {
      Unsteady.failures.set(0)
      Unsteady.percent = 12
      try
        withSettings(settings: _*)(
          withFolder(folder => check(runAll(folder.resolve("checkpoint").toString, ordered), ordered))
        )
      finally Unsteady.percent = 0
      assert(Unsteady.failures.get >= 3)
    }

    test(
      s"ordered $ordered, format $format: a file system that fails at random changes nothing in the result",
      Nightly
    ) {
      withSettings(settings: _*)(withFolder { folder =>
        val before = FlakyFiles.failures.get
        FlakyFiles.percent = 8
        try check(runAll(s"flaky://${folder.resolve("checkpoint")}", ordered), ordered)
        finally FlakyFiles.percent = 0
        assert(FlakyFiles.failures.get >= before + 5)
      })
    }
  }
}

/** Answers at once or within 60 ms; of 100 calls so many fail. */
class Unsteady extends AsyncFunction[Row, Row] {
  override def asyncInvoke(input: Row, future: ResultFuture[Row]): Unit = {
    val id = input.getLong(0)
    val delay = new Random(id).nextInt(4) * 20L
    Unsteady.pool.schedule((() => Unsteady.answer(id, future)): Runnable, delay, TimeUnit.MILLISECONDS): Unit
  }
}

object Unsteady {
  val failures = new AtomicInteger
  @volatile var percent = 0
  private val random = new Random(11)

  private val pool: ScheduledExecutorService = Executors.newScheduledThreadPool(
    1,
    (body: Runnable) => {
      val thread = new Thread(body, "service of a test")
      thread.setDaemon(true)
      thread
    }
  )

  private def answer(id: Long, future: ResultFuture[Row]): Unit =
    if (random.nextInt(100) < percent) {
      failures.incrementAndGet()
      future.completeExceptionally(new IllegalStateException("at random"))
    } else future.completeOne(Row(id * 2))
}
