package io.pillarbox.spark.async.carry

import java.util.concurrent.TimeUnit

/**
 * The clock by which a slot counts the age of rows: it starts at the time of the machine and then only goes
 * forward, even if the machine's time is set back. Any thread.
 *
 * @param startMs the time of the machine
 * @param nanoTime from an arbitrary origin
 */
private[carry] final class SlotClock(startMs: Long, nanoTime: () => Long) {
  private val startNanos = nanoTime()

  def nowMs: Long = startMs + TimeUnit.NANOSECONDS.toMillis(nanoTime() - startNanos)
}

private[carry] object SlotClock {
  def ofMachine: SlotClock = new SlotClock(System.currentTimeMillis, () => System.nanoTime)
}
