package io.pillarbox.spark.functions

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.AtomicInteger

import io.pillarbox.api.{AsyncFunction, OpenContext, ResultFuture}
import org.apache.spark.sql.Row

/**
 * Answers the ids below `Held.answeredBelow` at once; the others stay in flight until a test completes them.
 */
class Held extends AsyncFunction[Row, Row] {
  override def open(context: OpenContext): Unit = {
    Held.opened.incrementAndGet()
    ()
  }

  override def close(): Unit = {
    Held.closed.incrementAndGet()
    ()
  }

  override def asyncInvoke(input: Row, future: ResultFuture[Row]): Unit = {
    Held.started.incrementAndGet()
    if (input.getLong(0) < Held.answeredBelow) future.completeOne(Row(input.getLong(0)))
    else {
      Held.held.add((input.getLong(0), future))
      ()
    }
  }

  override def cancel(input: Row, future: ResultFuture[Row]): Unit = {
    Held.cancelled.incrementAndGet()
    ()
  }
}

object Held {
  @volatile var answeredBelow = 0L
  val opened = new AtomicInteger
  val closed = new AtomicInteger
  val started = new AtomicInteger
  val cancelled = new AtomicInteger
  val held = new ConcurrentLinkedQueue[(Long, ResultFuture[Row])]

  def reset(below: Long): Unit = {
    answeredBelow = below
    Seq(opened, closed, started, cancelled).foreach(_.set(0))
    held.clear()
  }
}
