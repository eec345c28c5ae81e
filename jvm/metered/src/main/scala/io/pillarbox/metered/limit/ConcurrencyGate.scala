package io.pillarbox.metered.limit

/**
 * Gives at most `max` permits at a time. Waiters are served in the order they came, and none is overtaken.
 *
 * An operator has one waiter in line at a time however many of its elements wait, so the line is fair over
 * operators: each gets a permit in turn.
 */
private[pillarbox] final class ConcurrencyGate(max: Int, gateClock: GateClock)
    extends PausingGate(gateClock) {
  require(max > 0, s"The maximum of concurrent calls must be positive, not $max")

  def this(max: Int) = this(max, GateClock.System)

  override protected def take(waiter: Runnable): Boolean = {
    // The pause first: one that is over ends here, also while there is no permit.
    val granted = !isPausedNow && out < max
    if (granted) out += 1
    granted
  }

  /** Without a pause the next released permit serves the waiters. */
  override protected def someWait(): Unit = serveAfterPause()

  override def limitNow: Int = max
}
