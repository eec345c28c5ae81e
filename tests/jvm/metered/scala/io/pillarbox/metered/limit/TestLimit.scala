package io.pillarbox.metered.limit

/** Limits of one kind, within this JVM. */
object TestLimit {

  def ofCalls(most: Int, clock: LimitClock = LimitClock.System): LocalLimit =
    new LocalLimit(LimitTerms(most), Overload.Default, clock)

  def ofRate(most: Double, intervalNanos: Long, burst: Double, clock: LimitClock): LocalLimit =
    new LocalLimit(
      LimitTerms(0, most = most, intervalNanos = intervalNanos),
      Overload.Default,
      clock,
      null,
      burst
    )

  def adaptive(ceiling: Int, clock: LimitClock): LocalLimit =
    new LocalLimit(LimitTerms(ceiling, adaptive = true), Overload.Default, clock)

  /** No limit but that of a breaker. */
  def ofBreaker(failures: Int, pauseNanos: Long, clock: LimitClock): LocalLimit =
    new LocalLimit(
      LimitTerms(0),
      Overload.Default,
      clock,
      new Breaker(failures, pauseNanos)
    )
}
