package io.pillarbox.async.gate

import java.util

/**
 * Gives at most `max` permits at a time. Waiters are served in the order they came, and none is overtaken.
 *
 * An operator has one waiter in line at a time however many of its elements wait, so the line is fair over
 * operators: each gets a permit in turn.
 */
private[pillarbox] final class ConcurrencyGate(max: Int) extends CallGate {
  require(max > 0, s"The maximum of concurrent calls must be positive, not $max")

  private val waiters = new util.ArrayDeque[Runnable]
  private var free = max

  override def tryAcquire(waiter: Runnable): Boolean = synchronized {
    val granted = free > 0 && waiters.isEmpty
    if (granted) free -= 1 else waiters.addLast(waiter)
    granted
  }

  override def cancel(waiter: Runnable): Boolean = synchronized(waiters.remove(waiter))

  /**
   * Hands the permit to the first waiter, which runs on this thread and outside the lock.
   *
   * @throws IllegalStateException if more permits come back than went out
   */
  override def release(): Unit = {
    val next = synchronized {
      val first = waiters.pollFirst()
      if (first eq null) giveBack()
      first
    }
    if (next ne null) next.run()
  }

  private def giveBack(): Unit = {
    if (free == max)
      throw new IllegalStateException(s"A permit was released that nobody held: all $max are free.")
    free += 1
  }

  override def limitNow: Int = max

  /** The number of permits that are out. */
  def inUse: Int = synchronized(max - free)
}
