package io.pillarbox.async.gate

/**
 * What the service has said of a limit.
 *
 * @param remaining the amount that is left
 * @param resetNanos the time from now until all of it is there again
 */
private[pillarbox] final case class Told(remaining: Double, resetNanos: Long)
