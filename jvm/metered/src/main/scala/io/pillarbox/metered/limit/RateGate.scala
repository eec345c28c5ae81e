package io.pillarbox.metered.limit

import java.util.concurrent.TimeUnit

/**
 * Lets calls start, or what they use, come to at most `most` in any stretch of `intervalNanos`, evenly
 * spread; see [[ChargeWindow]] for the proof. A call that is no [[Claim]] counts 1, and its permit is not
 * given back. Waiters are served in order.
 *
 * A claim is charged before its call begins. When it is settled, what was charged too much is given back at
 * once, and what was missing is charged then.
 *
 * @param burst the amount that may start at once after a pause; it also makes up for wake-ups that come late
 */
private[pillarbox] final class RateGate(
    most: Double,
    intervalNanos: Long,
    burst: Double,
    gateClock: GateClock
) extends PausingGate(gateClock) {
  require(most > 0, s"The rate limit must be positive, not $most")
  require(burst >= 1, s"The burst of the rate limit must be positive, not $burst")

  private val window = new ChargeWindow(most, intervalNanos)
  private val spacing = window.holdNanos / most
  private val tolerance = (math.ceil(spacing) * (burst - 1)).toLong
  private val pace = new Pace(spacing, tolerance, window.creditNanos)
  private val told = new ToldBounds(intervalNanos)
  private val mean = new ReportedMean(most)

  /** The time without a call after which the gate is as good as a new one. */
  def fillNanos: Long = tolerance + window.holdNanos

  /** Uses the clock of the machine, and a burst of what ten milliseconds allow. */
  def this(most: Double, intervalNanos: Long) =
    this(most, intervalNanos, RateGate.defaultBurst(most, intervalNanos), GateClock.System)

  override protected def take(waiter: Runnable): Boolean = {
    val now = clock.nanoTime
    val amount = amountOf(waiter)
    val granted = !isPaused(now) && pace.waitNanos(now) == 0 && window.hasRoom(amount, now) &&
      told.hasRoom(amount, now)
    if (granted) {
      pace.charge(amount, now)
      told.charge(amount, told.heard)
      Claim.note(waiter, amount, window.charge(amount, now), told.heard)
    }
    granted
  }

  private def amountOf(waiter: Runnable): Double = waiter match {
    case claim: Claim => mean.toCharge(claim.asked)
    case _ => 1.0
  }

  override protected def someWait(): Unit = if (hasWaiters) {
    val now = clock.nanoTime
    val amount = amountOf(head)
    val forRoom = math.max(window.waitNanos(amount, now), told.waitNanos(amount, now))
    serveAfter(math.max(pauseLeft, math.max(pace.waitNanos(now), forRoom)))
  }

  override def settle(claim: Claim, used: Double): Unit = if (!used.isNaN || claim.asked.isNaN) {
    synchronized {
      val missing = mean.settled(claim, used) - claim.charged
      if (missing > 0) {
        val now = clock.nanoTime
        pace.charge(missing, now)
        window.charge(missing, now): Unit
        told.charge(missing, claim.heard)
      } else lower(claim, -missing)
    }
    serve()
  }

  override def giveBack(claim: Claim): Unit = {
    synchronized(lower(claim, claim.charged))
    serve()
  }

  private def lower(claim: Claim, amount: Double): Unit = {
    pace.giveBack(amount, clock.nanoTime)
    window.giveBack(claim.slot, amount)
    told.charge(-amount, claim.heard)
  }

  override private[metered] def hears: Boolean = true

  override private[metered] def hear(said: Told): Unit =
    synchronized(told.hear(said, clock.nanoTime))

  override def mayBegin: Boolean = super.mayBegin && !synchronized(told.isClosed(clock.nanoTime))

  /** True while the service has said what is left. */
  def isBound: Boolean = !synchronized(told.isEmpty(clock.nanoTime))

  override def release(): Unit = ()
}

private[pillarbox] object RateGate {
  private def defaultBurst(most: Double, intervalNanos: Long): Double =
    math.max(1.0, most * TimeUnit.MILLISECONDS.toNanos(10) / math.max(1L, intervalNanos))
}
