package io.pillarbox.spark.functions

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.AtomicInteger

import io.pillarbox.api.{AsyncFunction, OpenContext, ResultFuture}
import org.apache.spark.sql.Row

/**
 * Answers the ids below `Held.answeredBelow` at once; the others stay in flight until a test completes them.
 */
class Held extends AsyncFunction[Row, Row] {
  private val seen = Held.seen

  override def open(context: OpenContext): Unit = seen.opened.incrementAndGet(): Unit

  override def close(): Unit = seen.closed.incrementAndGet(): Unit

  override def asyncInvoke(input: Row, future: ResultFuture[Row]): Unit = {
    val isHeld = input.getLong(0) >= Held.answeredBelow
    // Held first: a test that has seen all calls begin finds them all.
    if (isHeld) seen.held.add((input.getLong(0), future))
    seen.started.incrementAndGet()
    if (!isHeld) future.completeOne(Row(input.getLong(0)))
  }

  override def cancel(input: Row, future: ResultFuture[Row]): Unit = seen.cancelled.incrementAndGet(): Unit
}

object Held {

  /** What the instances have seen that were made since the last reset: an earlier one may be closed later. */
  private final class Seen {
    val opened, closed, started, cancelled = new AtomicInteger
    val held = new ConcurrentLinkedQueue[(Long, ResultFuture[Row])]
  }

  @volatile private var seen = new Seen
  @volatile var answeredBelow = 0L

  def opened: AtomicInteger = seen.opened
  def closed: AtomicInteger = seen.closed
  def started: AtomicInteger = seen.started
  def cancelled: AtomicInteger = seen.cancelled
  def held: ConcurrentLinkedQueue[(Long, ResultFuture[Row])] = seen.held

  def reset(below: Long): Unit = {
    answeredBelow = below
    seen = new Seen
  }
}
