package io.pillarbox.metered.limit

import java.util.concurrent.TimeUnit

import io.pillarbox.mailbox.SystemProcessingTimeService

/** The clock of gates, which also runs tasks at a time. */
private[pillarbox] trait GateClock {

  /** Nanoseconds from an arbitrary origin, never backwards. Any thread. */
  def nanoTime: Long

  /** Runs the task, which is short, once after the delay, or right then, on any thread. */
  def schedule(delayNanos: Long, task: Runnable): Unit
}

private[pillarbox] object GateClock {

  /** The clock of the machine, on the scheduler thread that all tasks of this JVM share. */
  val System: GateClock = new GateClock {
    override def nanoTime: Long = java.lang.System.nanoTime()

    override def schedule(delayNanos: Long, task: Runnable): Unit = {
      SystemProcessingTimeService.Scheduler.schedule(task, delayNanos, TimeUnit.NANOSECONDS)
      ()
    }
  }
}
