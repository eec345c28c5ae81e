package io.pillarbox.metered.limit

import java.util.concurrent.TimeUnit

/**
 * A limit within this JVM.
 *
 * Of calls in flight it gives at most `terms.calls` permits at a time, or, if it adapts, as many as the service
 * bears, see [[AdaptiveLimit]]. After an attempt that was told when to come back, no other begins before. Where
 * the limit falls, permits that are out stay out; no new one is given until enough have come back.
 *
 * @param burst the amount of the rate that may start at once after a pause; it also makes up for wake-ups that
 *   come late
 */
private[pillarbox] final class LocalLimit(
    terms: LimitTerms,
    overload: Overload,
    clock: LimitClock,
    breaker: Breaker,
    burst: Double
) extends Limit(clock, breaker, overload) {

  /** Uses a burst of what ten milliseconds allow. */
  def this(terms: LimitTerms, overload: Overload, clock: LimitClock, breaker: Breaker = null) =
    this(terms, overload, clock, breaker, LocalLimit.defaultBurst(terms))

  private val adaptive = if (terms.adaptive) new AdaptiveLimit(terms.calls) else null
  override protected val amounts: Rate = if (terms.hasRate) new Rate(terms, burst, clock) else null

  override private[metered] def mostNow: Int =
    if (adaptive ne null) adaptive.now else if (terms.calls > 0) terms.calls else Int.MaxValue

  override def keepNanos: Long = {
    val forRate = if (amounts eq null) 0L else amounts.fillNanos
    if (learns) math.max(forRate, LocalLimit.LearnedNanos) else forRate
  }

  override private[metered] def learns: Boolean = super.learns || (adaptive ne null)

  override private[metered] def learn(startNanos: Long, error: Throwable, pauseMs: Long): Unit = {
    super.learn(startNanos, error, pauseMs)
    if (adaptive ne null) {
      if (error eq null) adaptive.answered(inFlight)
      else if (pauseMs >= 0) {
        adaptive.overloaded(startNanos, clock.nanoTime)
        lengthenPause(TimeUnit.MILLISECONDS.toNanos(pauseMs))
      }
    }
  }
}

private[pillarbox] object LocalLimit {

  /** The time for which a limit keeps what it has learned of its service. */
  private[metered] val LearnedNanos = TimeUnit.MINUTES.toNanos(10)

  private def defaultBurst(terms: LimitTerms) =
    math.max(1.0, terms.most * TimeUnit.MILLISECONDS.toNanos(10) / terms.intervalNanos)
}

/**
 * Lets calls start, or what they use, come to at most `terms.most` in any stretch of the interval, evenly
 * spread; see [[ChargeWindow]] for the proof.
 *
 * A call is charged before it begins. When it is settled, what was charged too much is given back at once, and
 * what was missing is charged then.
 */
private[limit] final class Rate(terms: LimitTerms, burst: Double, clock: LimitClock) extends Amounts {
  require(burst >= 1, s"The burst of the rate limit must be positive, not $burst")

  private val window = new ChargeWindow(terms.most, terms.intervalNanos)
  private val tolerance = (math.ceil(window.holdNanos / terms.most) * (burst - 1)).toLong
  private val spacing = new Spacing(window.holdNanos / terms.most, tolerance, window.creditNanos)
  private val bounds = new FeedbackBounds(terms.intervalNanos)
  private val mean = new ReportedMean(terms.most)

  /** The time without a call after which it is as good as new. */
  def fillNanos: Long = tolerance + window.holdNanos

  override def waitNanos(charge: Charge, now: Long): Long = {
    val amount = mean.toCharge(charge.asked)
    val forRoom = math.max(window.waitNanos(amount, now), bounds.waitNanos(amount, now))
    math.max(spacing.waitNanos(now), forRoom)
  }

  override def take(charge: Charge, now: Long): Unit = {
    charge.amount = mean.toCharge(charge.asked)
    spacing.charge(charge.amount, now)
    charge.slot = window.charge(charge.amount, now)
    bounds.charge(charge)
  }

  override def settle(charge: Charge, used: Double): Unit = if (!used.isNaN || charge.asked.isNaN) {
    val now = clock.nanoTime
    val missing = mean.settled(charge, used) - charge.amount
    if (missing > 0) {
      spacing.charge(missing, now)
      window.charge(missing, now): Unit
      bounds.charge(missing, charge.feedback)
    } else lower(charge, -missing, now)
  }

  override def giveBack(charge: Charge, now: Long): Unit = lower(charge, charge.amount, now)

  private def lower(charge: Charge, amount: Double, now: Long): Unit = {
    spacing.giveBack(amount, now)
    window.giveBack(charge.slot, amount)
    bounds.charge(-amount, charge.feedback)
  }

  override def receive(said: Feedback, now: Long): Unit = bounds.receive(said, now)

  override def isClosed(now: Long): Boolean = bounds.isClosed(now)

  override def isBound(now: Long): Boolean = !bounds.isEmpty(now)
}
