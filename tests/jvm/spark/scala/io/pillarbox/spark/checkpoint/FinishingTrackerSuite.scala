package io.pillarbox.spark.checkpoint

import java.util.concurrent.atomic.AtomicInteger

import scala.util.Try

import io.pillarbox.spark.SpecBuilder
import io.pillarbox.spark.functions.Held
import io.pillarbox.spark.keyed.{Count, Event, KeyedFixture, Spec}
import io.pillarbox.tags.Nightly
import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.expressions.UserDefinedFunction
import org.apache.spark.sql.functions.udf
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.{DataFrame, Row}
import org.scalatest.funsuite.AnyFunSuite

/** What a `foreachBatch` leaves undone of a micro-batch is done before Spark commits it. */
class FinishingTrackerSuite extends AnyFunSuite with KeyedFixture {
  import FinishingTrackerSuite._

  private def swallowed(batch: DataFrame): Unit = {
    val context = batch.sparkSession.sparkContext
    context.setLocalProperty(Fails, "true")
    try if (Try(batch.collect()).isFailure) caught.incrementAndGet()
    finally context.setLocalProperty(Fails, null)
  }

  private val catches = "catches the failure of its action"
  private val takes = Seq[(String, DataFrame => Any)](
    "takes one row" -> (_.head(1)),
    "shows one row" -> (_.show(1)),
    "takes no row that there is" -> (_.where("false").collect()),
    "does not touch them" -> (_ => ()),
    catches -> swallowed
  )

  private def run(df: DataFrame, checkpoint: String)(take: DataFrame => Any): Unit = {
    val query = df.writeStream
      .option("checkpointLocation", checkpoint)
      .foreachBatch((batch: DataFrame, _: Long) => take(batch): Unit)
      .start()
    try query.processAllAvailable()
    finally query.stop()
  }

  private def withFormat(format: String)(body: java.nio.file.Path => Unit): Unit =
    withSettings(checkpointFormat(format): _*)(withFolder(body))

  private val events = "abcdef".map(key => Event(key.toString, 1, 1000))

  for {
    format <- Seq("1", "2")
    ((what, take), number) <- takes.zipWithIndex
  } {
    // By day each is run once with keyed functions, in turn of the formats, and the last two with calls.
    val isEven = (format == "1") == (number % 2 == 0)
    def tags(isByDay: Boolean) = if (isByDay) Nil else Seq(Nightly)

    test(s"format $format: keyed functions, a foreachBatch that $what", tags(isEven): _*) {
      withFormat(format) { folder =>
        Count.beforeRow.set((_: Row) => failIfAsked())
        try {
          val stream = new Stream(folder)
          val counted = process(process(stream.input, Spec()).selectExpr("k", "n as v"), Spec())
          (1 to 2).foreach { _ =>
            stream.add(events: _*)
            run(counted, folder.toString)(take)
          }
          assert((caught.getAndSet(0) > 0) == (what == catches))
          stream.add(events: _*)
          stream.runOnce(counted)
          assert(stream.rows.map(row => row.getString(0) -> row.getLong(2)).sorted == events.map(_.k -> 3L))
        } finally Count.beforeRow.set(_ => ())
      }
    }

    test(
      s"format $format: calls that are carried over, a foreachBatch that $what",
      tags(!isEven && number >= 3): _*
    ) {
      withFormat(format) { folder =>
        import spark.implicits._
        Held.reset(below = 100)
        val memory = MemoryStream[Long](spark)
        val carried =
          SpecBuilder.asyncIO(memory.toDF().select(sometimes($"value").as("id")), classOf[Held], "x long") {
            spec =>
              spec.putObject("carry_over").put("slots", 2): Unit
          }
        (0 until 3).foreach { round =>
          (0 until 4).foreach(i => memory.addData(round * 4L + i))
          run(carried, folder.toString)(take)
        }
        assert(Held.started.get == 12)
        assert((caught.getAndSet(0) > 0) == (what == catches))
      }
    }
  }

  test("what fails when it is made up for fails the query before its micro-batch is committed") {
    withFolder { folder =>
      val stream = new Stream(folder)
      val counted = process(stream.input, Spec())
      stream.add(events: _*)
      Count.beforeRow.set((_: Row) => throw new IllegalStateException("on purpose"))
      try {
        val failed = intercept[StreamingQueryException](run(counted, folder.toString)(_ => ()))
        assert(causes(failed).exists(_.contains("on purpose")))
      } finally Count.beforeRow.set(_ => ())
      stream.runOnce(counted)
      assert(stream.rows.map(row => row.getString(0) -> row.getLong(2)).sorted == events.map(_.k -> 1L))
    }
  }
}

private object FinishingTrackerSuite {

  /** A property of a job: its last attempts fail, too, that run when the query goes on. */
  private final val Fails = "pillarbox.test.fails"
  val caught = new AtomicInteger

  private def failIfAsked(): Unit =
    if (TaskContext.get().getLocalProperty(Fails) == "true") throw new IllegalStateException("on purpose")

  val sometimes: UserDefinedFunction = udf { (id: Long) =>
    failIfAsked()
    id
  }
}
