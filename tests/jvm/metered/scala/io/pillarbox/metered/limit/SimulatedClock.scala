package io.pillarbox.metered.limit

import java.util.concurrent.TimeUnit

import scala.collection.mutable

/** Runs what is due, in the order of its times, up to where a test says. It starts where the clock wraps. */
final class SimulatedClock extends LimitClock {
  private val origin = Long.MaxValue - TimeUnit.SECONDS.toNanos(1)
  private val events = mutable.PriorityQueue.empty[(Long, Long, Runnable)](Ordering.by(e => (-e._1, -e._2)))
  private var nanos = 0L
  private var count = 0L

  override def nanoTime: Long = origin + nanos

  override def schedule(delayNanos: Long, task: Runnable): Unit = {
    count += 1
    events += ((nanos + math.max(0L, delayNanos), count, task))
  }

  /** Since it was made. */
  def nowMs: Long = TimeUnit.NANOSECONDS.toMillis(nanos)

  def in(delayMs: Long)(task: => Unit): Unit = schedule(TimeUnit.MILLISECONDS.toNanos(delayMs), () => task)

  def run(untilMs: Long): Unit = {
    val until = TimeUnit.MILLISECONDS.toNanos(untilMs)
    while (events.headOption.exists(_._1 <= until)) {
      val (at, _, task) = events.dequeue()
      nanos = at
      task.run()
    }
    nanos = until
  }
}
