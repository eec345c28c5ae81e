package io.pillarbox.spark.async.carry

import java.util.concurrent.{Executors, ScheduledExecutorService, TimeUnit}

import io.pillarbox.api.{AsyncFunction, ResultFuture}
import io.pillarbox.spark.SpecBuilder
import io.pillarbox.spark.functions.Held
import io.pillarbox.spark.keyed.KeyedFixture
import io.pillarbox.spark.state.StateMaintenance
import org.apache.spark.sql.Row
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.streaming.StreamingQuery
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

/** A slot whose calls are quick: it stays open with nothing in flight, and a micro-batch waits for them. */
class IdleSlotSuite extends AnyFunSuite with KeyedFixture with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(20, Seconds), Span(20, Millis))

  private def running(function: Class[_])(body: (Seq[Long] => Unit, StreamingQuery) => Unit): Unit =
    withFolder { folder =>
      import spark.implicits._
      Held.reset(below = 1000)
      val memory = MemoryStream[Long](spark)
      val carried = SpecBuilder.asyncIO(memory.toDF().toDF("id"), function, "x long") { spec =>
        spec.putObject("carry_over").put("slots", 1): Unit
      }
      val query =
        carried.writeStream.option("checkpointLocation", s"$folder/checkpoint").format("noop").start()
      def put(ids: Seq[Long]): Unit = {
        memory.addData(ids)
        query.processAllAvailable()
      }
      try body(put, query)
      finally query.stop()
    }

  test("a slot with nothing in flight is used by the next micro-batches, and closed when it gets no rows") {
    running(classOf[Held]) { (put, _) =>
      (1L to 3L).foreach(id => put(Seq(id)))
      assert(Held.opened.get == 1 && Held.closed.get == 0)
      StateMaintenance.unloadInactive()
      put(Seq(4L))
      assert(Held.opened.get == 1)
      (1 to 2).foreach(_ => StateMaintenance.unloadInactive())
      eventually(assert(Held.closed.get == 1 && OpenSlots.partitions.isEmpty))
      put(Seq(5L))
      assert(Held.opened.get == 2 && Held.started.get == 5)
    }
  }

  test("a worker that dies while nothing is in flight fails nothing") {
    running(classOf[Held]) { (put, query) =>
      put(Seq(1L))
      // As the end of its process does to a slot.
      OpenSlots.partitions.filter(_.runId == query.runId).foreach { partition =>
        val open = OpenSlots.checkOut(partition).get
        open.slot.close()
        open.slot.join(10000)
        assert(open.slot.failed != null)
        OpenSlots.checkIn(partition, open)
      }
      put(Seq(2L))
      assert(query.exception.isEmpty && Held.opened.get == 2)
    }
  }

  test("calls that take a few milliseconds as a rule end in the micro-batch of their rows") {
    running(classOf[Quick]) { (put, query) =>
      (1L to 30L).foreach(id => put(Seq(id)))
      val carried = query.recentProgress
        .filter(_.numInputRows > 0)
        .map(_.stateOperators(0).customMetrics.get("numRowsCarried").longValue)
      // Of the first one nobody knows how long calls take; others may hit on a bad moment of the machine.
      assert(carried.count(_ == 0) >= 10, carried.mkString(" "))
    }
  }
}

/** Answers after five milliseconds. */
final class Quick extends AsyncFunction[Row, Row] {
  override def asyncInvoke(input: Row, future: ResultFuture[Row]): Unit =
    Quick.pool.schedule((() => future.completeOne(Row(1L))): Runnable, 5, TimeUnit.MILLISECONDS): Unit
}

private object Quick {
  val pool: ScheduledExecutorService = Executors.newScheduledThreadPool(
    1,
    { body =>
      val thread = new Thread(body, "service of a test")
      thread.setDaemon(true)
      thread
    }
  )
}
