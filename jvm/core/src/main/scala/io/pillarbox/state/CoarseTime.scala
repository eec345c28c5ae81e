package io.pillarbox.state

import java.util.concurrent.atomic.{AtomicBoolean, AtomicLong}
import java.util.concurrent.locks.LockSupport

/**
 * The wall clock in milliseconds, read from memory: asking the system takes longer than most accesses to state on the heap.
 *
 * The value is at most about [[TickMillis]] ms late, more only while the machine doesn't schedule the ticker, a daemon thread of
 * the process. The ticker sleeps once nobody asked for a second, and the next to ask reads the system's clock and wakes it. Any
 * thread.
 */
object CoarseTime {

  /** How old a time may be, in milliseconds. */
  final val TickMillis = 2L
  private final val IdleTicks = 1000L / TickMillis
  private final val Asleep = Long.MinValue

  /** Read opaquely: whoever asks for the time must not be made to read anything else again. */
  private[this] val now = new AtomicLong(Asleep)

  /** Set by readers, once a tick at most, and taken back by the ticker. */
  private[this] val asked = new AtomicBoolean(false)

  private[this] val ticker = new Thread(() => tick(), "pillarbox-coarse-time")
  ticker.setDaemon(true)
  ticker.start()

  /** Milliseconds since the epoch. */
  def millis(): Long = {
    if (!asked.getOpaque) asked.set(true)
    val time = now.getOpaque
    if (time == Asleep) wake() else time
  }

  /** Whether the ticker waits to be asked. */
  private[state] def isAsleep: Boolean = now.get == Asleep

  private[this] def wake(): Long = {
    val time = System.currentTimeMillis()
    LockSupport.unpark(ticker)
    time
  }

  private[this] def tick(): Unit = {
    var idle = 0L
    while (true) {
      idle = if (asked.get) 0L else idle + 1
      asked.set(false)
      if (idle <= IdleTicks) {
        now.set(System.currentTimeMillis())
        LockSupport.parkNanos(TickMillis * 1000000L)
      } else sleep()
    }
  }

  /** Nobody may read an old time once the ticker stands still, so the mark comes first. */
  private[this] def sleep(): Unit = {
    now.set(Asleep)
    while (!asked.get) LockSupport.park(this)
  }
}
