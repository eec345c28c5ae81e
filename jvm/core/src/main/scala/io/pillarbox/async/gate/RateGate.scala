package io.pillarbox.async.gate

import java.util.concurrent.TimeUnit

/**
 * Lets at most `permits` calls start per `intervalNanos`, evenly spread: in any stretch of that length at
 * most `permits + burst - 1`. A permit is not given back, `release` does nothing. Waiters are served in
 * order.
 *
 * A token bucket of `burst` tokens, kept as the time at which it would be full: the Generic Cell Rate
 * Algorithm, ITU-T Recommendation I.371.
 *
 * @param burst the calls that may start at once after a pause; more than 1 also makes up for wake-ups that
 *   come late
 */
private[pillarbox] final class RateGate(permits: Int, intervalNanos: Long, burst: Int, gateClock: GateClock)
    extends PausingGate(gateClock) {
  require(permits > 0, s"The rate limit must be positive, not $permits calls")
  require(intervalNanos > 0, s"The interval of the rate limit must be positive, not $intervalNanos ns")
  require(burst > 0, s"The burst of the rate limit must be positive, not $burst")

  /** Rounded up: rather one call in a billion too late than one too early. */
  private val spacing = (intervalNanos + permits - 1) / permits
  private val tolerance = spacing * (burst - 1)
  private var fullAt = clock.nanoTime

  /** The time without a call after which the gate is as good as a new one. */
  def fillNanos: Long = tolerance + spacing

  /** Uses the clock of the machine, and a burst of the calls that ten milliseconds allow. */
  def this(permits: Int, intervalNanos: Long) = this(
    permits,
    intervalNanos,
    RateGate.defaultBurst(permits, intervalNanos),
    GateClock.System
  )

  /** Compares by difference, as the clock may wrap. */
  override protected def take(): Boolean = {
    val now = clock.nanoTime
    val base = if (fullAt - now > 0) fullAt else now
    val granted = base - now <= tolerance
    if (granted) fullAt = base + spacing
    granted
  }

  override protected def someWait(): Unit = serveAfter(math.max(0L, fullAt - tolerance - clock.nanoTime))

  override def release(): Unit = ()
}

private[pillarbox] object RateGate {
  private def defaultBurst(permits: Int, intervalNanos: Long): Int =
    math
      .min(
        Int.MaxValue.toLong,
        math.max(1L, permits.toLong * TimeUnit.MILLISECONDS.toNanos(10) / math.max(1L, intervalNanos))
      )
      .toInt
}
