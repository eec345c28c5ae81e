package io.pillarbox.spark.async.carry

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import io.pillarbox.spark.SpecBuilder
import io.pillarbox.spark.checkpoint._
import io.pillarbox.spark.functions.Held
import io.pillarbox.spark.keyed.{Event, KeyedFixture, Spec}
import io.pillarbox.spark.state.StateMaintenance
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.pillarbox.LostMessages
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.types.{LongType, StructType}
import org.apache.spark.sql.{DataFrame, ForeachWriter, Row}
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

/**
 * Calls that are in flight by the checkpoint, and that nobody makes any more: the next micro-batch makes
 * them, though no input comes and nobody waits. And what a task does that takes another attempt's file.
 */
class UncalledSuite extends AnyFunSuite with KeyedFixture with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(20, Seconds), Span(20, Millis))

  /** A query with calls in flight in its first version. */
  private def withCalls(body: (MemoryStream[Long], StreamingQuery, java.nio.file.Path) => Unit): Unit =
    withFolder { folder =>
      import spark.implicits._
      Held.reset(below = 0)
      Left.rows.clear()
      val memory = MemoryStream[Long](spark)
      val carried = SpecBuilder.asyncIO(memory.toDF().toDF("id"), classOf[Held], "x long") { spec =>
        spec.put("capacity", 9).putObject("carry_over").put("slots", 1): Unit
      }
      memory.addData(1L, 2L)
      val query = carried.writeStream
        .option("checkpointLocation", s"flaky://$folder/checkpoint")
        .foreachBatch((batch: DataFrame, _: Long) => Left.rows.addAll(batch.collect().toSeq.asJava): Unit)
        .start()
      try {
        eventually(assert(query.recentProgress.exists(_.batchId == 0)))
        body(memory, query, folder)
      } finally query.stop()
    }

  private def answer(): Unit =
    Held.held.asScala.foreach { case (id, future) => future.completeOne(Row(id)) }

  private def assertAllLeave(): Unit = {
    eventually(assert(Held.started.get == 4))
    answer()
    eventually(assert(Left.rows.asScala.toSeq.map(_.getLong(0)).sorted == Seq(1L, 2L)))
  }

  test("an attempt that wrote its file and then failed, whose file the next one takes") {
    val renames = new AtomicInteger
    FlakyFiles.failing =
      (path: Path) => path.getName.matches("1_.*\\.carried") && renames.incrementAndGet() == 2
    try withCalls((_, _, _) => assertAllLeave())
    finally FlakyFiles.failing = _ => false
  }

  test("a slot that its executor gives up, as another one is said to have it") {
    withCalls { (_, _, _) =>
      OpenSlots.partitions.foreach(OpenSlots.unload)
      assertAllLeave()
    }
  }

  for (fails <- Seq(false, true))
    test(s"a slot whose message to the driver was lost tells it again, failed: $fails") {
      withCalls { (_, _, _) =>
        LostMessages.during { lost =>
          if (fails)
            Held.held.asScala.foreach(_._2.completeExceptionally(new IllegalStateException("the service")))
          else answer()
          eventually(assert(!lost.isEmpty))
        }
        StateMaintenance.unloadInactive()
        if (fails) assertAllLeave()
        else eventually(assert(Left.rows.size == 2))
      }
    }

  test("the slot of an executor that finds the next version written by another ends") {
    withCalls { (memory, query, folder) =>
      val slot =
        new StateFolder(new Path(s"$folder/checkpoint/state/0/0"), spark.sparkContext.hadoopConfiguration)
      val answers = new StructType().add("x", LongType)
      val store = new SlotStore(slot, new SlotStateFormat(1, 1, UnsafeProjection.create(answers)))
      val base = slot.list().collectFirst { case file if file.version == 1 => StateVersion(1, file.id) }.get
      store.write(StateVersion(2, Some(Attempt(1, 0).newId())), base) { out =>
        SlotStateFormat.writeEnd(new java.io.DataOutputStream(out))
        SlotState.Empty.copy(runId = query.runId.toString)
      }
      // As the stage did that the other executor had its task of.
      assert(CarryRegistry.of(query.runId.toString, 0)(fail("the query has none")).begins(2))
      memory.addData(3L)
      eventually(assert(query.lastProgress.batchId == 1))
      eventually(assert(Held.closed.get == 1))
    }
  }

  /** Runs rows through `operators` and calls, into a sink that fails once a task has given it all. */
  private def intoFailing(format: String)(operators: DataFrame => DataFrame)(
      check: StreamingQuery => Unit
  ): Unit =
    withSettings(checkpointFormat(format): _*)(withFolder { folder =>
      Held.reset(below = 100)
      Left.rows.clear()
      Left.failures.set(1)
      val stream = new Stream(folder)
      val query = SpecBuilder
        .asyncIO(operators(stream.watermarked), classOf[Held], "x long") { spec =>
          spec.put("capacity", 9).putObject("carry_over").put("slots", 1): Unit
        }
        .writeStream
        .option("checkpointLocation", s"$folder/checkpoint")
        .foreach(new Left)
        .start()
      try {
        stream.add(Event("a", 1, 1000), Event("b", 1, 2000), Event("a", 1, 3000))
        query.processAllAvailable()
        assert(Left.failures.get < 1)
        check(query)
      } finally query.stop()
    })

  for (format <- Seq("1", "2"))
    test(s"format $format: a task that is tried again has operators before the calls do their part again") {
      intoFailing(format)(process(_, Spec()).select("n")) { _ =>
        assert(Left.rows.asScala.toSeq.map(_.getLong(0)).sorted == Seq(1L, 1L, 2L))
      }
    }

  test("a task that is tried again tells of the times of its rows") {
    intoFailing("1")(_.select("v", "ts")) { query =>
      assert(Left.rows.size == 3)
      assert(query.recentProgress.exists(_.eventTime.get("max") == "1970-01-01T00:00:03.000Z"))
    }
  }
}

/** Takes rows, and fails so many times when it has all of a task. */
final class Left extends ForeachWriter[Row] {
  override def open(partition: Long, epoch: Long): Boolean = true
  override def process(row: Row): Unit = Left.rows.add(row): Unit
  override def close(error: Throwable): Unit =
    if (error == null && Left.failures.getAndDecrement() > 0) throw new IllegalStateException("the sink")
}

object Left {
  val rows = new ConcurrentLinkedQueue[Row]
  val failures = new AtomicInteger
}
