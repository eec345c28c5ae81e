package io.pillarbox.metered.limit

/**
 * What the service has said of a limit.
 *
 * @param remaining the amount that is left
 * @param resetNanos the time from now until all of it is there again; [[Told.NoReset]] if that was not said
 */
private[pillarbox] final case class Told(remaining: Double, resetNanos: Long)

private[pillarbox] object Told {

  /** In the place of a time that the service has not told. */
  final val NoReset = Long.MaxValue
}
