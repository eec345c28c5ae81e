package io.pillarbox.metered.limit

import java.util.concurrent.TimeUnit

import io.pillarbox.mailbox.SystemProcessingTimeService

/** The clock of limits, which also runs tasks at a time. */
private[pillarbox] trait LimitClock {

  /** Nanoseconds from an arbitrary origin, never backwards. Any thread. */
  def nanoTime: Long

  /** Runs the task, which is short, once after the delay, or right then, on any thread. */
  def schedule(delayNanos: Long, task: Runnable): Unit
}

private[pillarbox] object LimitClock {

  /** The clock of the machine, on the scheduler thread that all tasks of this JVM share. */
  val System: LimitClock = new LimitClock {
    override def nanoTime: Long = java.lang.System.nanoTime()

    override def schedule(delayNanos: Long, task: Runnable): Unit = {
      SystemProcessingTimeService.Scheduler.schedule(task, delayNanos, TimeUnit.NANOSECONDS)
      ()
    }
  }
}
