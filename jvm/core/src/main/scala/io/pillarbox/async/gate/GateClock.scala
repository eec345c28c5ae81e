package io.pillarbox.async.gate

import java.util.concurrent.TimeUnit

import io.pillarbox.mailbox.SystemProcessingTimeService

/** Time, and tasks run at a time, for gates. */
private[pillarbox] trait GateClock {

  /** Nanoseconds from an arbitrary origin, never backwards. Any thread. */
  def nanoTime: Long

  /** Runs the task once after the delay, or right then, on any thread. The task is short. */
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
