package io.pillarbox.metered.limit

/**
 * Gives as many permits at a time as the service bears, at most `ceiling`: see [[AdaptiveLimit]]. After an
 * attempt that was told when to come back, no other begins before. Where the limit falls, permits that are
 * out stay out; no new one is given until enough have come back.
 */
private[pillarbox] final class AdaptiveGate(ceiling: Int, overload: Overload, gateClock: GateClock)
    extends PausingGate(gateClock) {
  require(ceiling > 0, s"The maximum of concurrent calls must be positive, not $ceiling")

  private val limit = new AdaptiveLimit(ceiling)

  override protected def take(waiter: Runnable): Boolean = {
    val granted = !isPausedNow && out < limit.now
    if (granted) out += 1
    granted
  }

  /** Without a pause the next released permit serves the waiters. */
  override protected def someWait(): Unit = serveAfterPause()

  override def observe(startNanos: Long, error: Throwable): Unit = {
    val pauseMs = if (error eq null) Overload.No else overload.pauseMs(error)
    synchronized {
      if (error eq null) limit.answered(out)
      else if (pauseMs >= 0) {
        limit.overloaded(startNanos, clock.nanoTime)
        lengthenPause(nanosOf(pauseMs))
      }
    }
  }

  override def limitNow: Int = synchronized(limit.now)
}
