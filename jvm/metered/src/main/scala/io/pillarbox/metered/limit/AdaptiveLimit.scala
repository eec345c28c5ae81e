package io.pillarbox.metered.limit

/**
 * A limit that follows what a service can bear: additive increase, multiplicative decrease, as TCP does (V.
 * Jacobson, Congestion Avoidance and Control, SIGCOMM 1988). One thread at a time.
 *
 * It starts at its ceiling. An answer adds one part of the present limit, so one for as many answers as are
 * under way, unless it is not made use of. Overload takes three tenths, once for all attempts that were under
 * way then. It never falls below one: a service that is down is asked by one call at a time.
 */
private[metered] final class AdaptiveLimit(ceiling: Int) {
  import AdaptiveLimit._

  private var limit = ceiling.toDouble
  private var hasFallen = false
  private var fellNanos = 0L

  /** The number of attempts that may be under way, at least 1. */
  def now: Int = limit.toInt

  /** @param underWay the attempts under way when the answer came, its own included */
  def answered(underWay: Int): Unit =
    if (underWay >= now) limit = math.min(ceiling.toDouble, limit + 1.0 / limit)

  /**
   * @param startNanos when the attempt began that met the overload
   * @param nowNanos by the same clock
   */
  def overloaded(startNanos: Long, nowNanos: Long): Unit = if (!hasFallen || startNanos - fellNanos >= 0) {
    limit = math.max(1.0, limit * Decrease)
    hasFallen = true
    fellNanos = nowNanos
  }
}

private object AdaptiveLimit {
  private final val Decrease = 0.7
}
