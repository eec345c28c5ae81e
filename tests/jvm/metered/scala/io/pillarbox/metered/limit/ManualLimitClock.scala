package io.pillarbox.metered.limit

import scala.collection.mutable

/** Moved by hand; runs what is due as it passes it. */
final class ManualLimitClock extends LimitClock {
  private val tasks = mutable.Buffer.empty[(Long, Runnable)]
  private var now = Long.MaxValue - 500

  override def nanoTime: Long = now

  override def schedule(delayNanos: Long, task: Runnable): Unit = tasks += ((now + delayNanos, task))

  def advance(nanos: Long): Unit = (1L to nanos).foreach { _ =>
    now += 1
    val (due, later) = tasks.partition(_._1 - now <= 0)
    tasks.clear()
    tasks ++= later
    due.foreach(_._2.run())
  }

  def pending: Int = tasks.size
}
