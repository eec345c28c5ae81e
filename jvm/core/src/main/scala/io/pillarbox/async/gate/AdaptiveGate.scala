package io.pillarbox.async.gate

import java.util
import java.util.concurrent.TimeUnit

/**
 * As many permits are out at a time as the service bears, at most `ceiling`: see [[AdaptiveLimit]]. After an
 * attempt that was told when to come back, no other begins before. Waiters are served in the order they came.
 *
 * Where the limit falls, permits that are out stay out; no new one is given until enough have come back.
 */
private[pillarbox] final class AdaptiveGate(ceiling: Int, overload: Overload, clock: GateClock)
    extends CallGate {
  require(ceiling > 0, s"The maximum of concurrent calls must be positive, not $ceiling")

  private val limit = new AdaptiveLimit(ceiling)
  private val waiters = new util.ArrayDeque[Runnable]
  private var out = 0
  private var isPaused = false
  private var pausedUntil = 0L
  private var armed = false

  override def tryAcquire(waiter: Runnable): Boolean = synchronized {
    val granted = waiters.isEmpty && take()
    if (!granted) {
      waiters.addLast(waiter)
      arm()
    }
    granted
  }

  private def take(): Boolean = {
    if (isPaused && clock.nanoTime - pausedUntil >= 0) isPaused = false
    val granted = !isPaused && out < limit.now
    if (granted) out += 1
    granted
  }

  /** Without a pause the next permit that comes back serves the waiters. */
  private def arm(): Unit = if (isPaused && !armed && !waiters.isEmpty) {
    armed = true
    clock.schedule(math.max(0L, pausedUntil - clock.nanoTime), () => onPauseOver())
  }

  private def onPauseOver(): Unit = {
    synchronized { armed = false }
    serve()
  }

  override def observe(startNanos: Long, error: Throwable): Unit = {
    val pauseMs = if (error eq null) Overload.No else overload.pauseMs(error)
    synchronized {
      if (error eq null) limit.answered(out)
      else if (pauseMs >= 0) {
        val now = clock.nanoTime
        limit.overloaded(startNanos, now)
        if (pauseMs > 0) pause(now + nanosOf(pauseMs))
      }
    }
  }

  private def pause(until: Long): Unit = if (!isPaused || until - pausedUntil > 0) {
    isPaused = true
    pausedUntil = until
  }

  private def nanosOf(ms: Long): Long =
    TimeUnit.MILLISECONDS.toNanos(math.min(ms, Overload.LongestPauseMs))

  /** @throws IllegalStateException if more permits come back than went out */
  override def release(): Unit = {
    synchronized {
      if (out == 0) throw new IllegalStateException("A permit was released that nobody held: all are free.")
      out -= 1
    }
    serve()
  }

  /** Waiters run outside the lock: they may come back at once. */
  private def serve(): Unit = {
    val served = new util.ArrayList[Runnable]
    synchronized {
      while (!waiters.isEmpty && take()) served.add(waiters.pollFirst())
      arm()
    }
    served.forEach(_.run())
  }

  override def cancel(waiter: Runnable): Boolean = synchronized(waiters.remove(waiter))

  override def mayBegin: Boolean = synchronized(!isPaused || clock.nanoTime - pausedUntil >= 0)

  override def limitNow: Int = synchronized(limit.now)

  /** Permits that are out. */
  def inUse: Int = synchronized(out)
}
