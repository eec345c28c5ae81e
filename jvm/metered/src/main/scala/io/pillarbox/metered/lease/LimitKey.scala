package io.pillarbox.metered.lease

/**
 * Names a limit for all that share it.
 *
 * @param name the limit's
 * @param value that of its key, for a limit that holds for each value by itself
 */
private[pillarbox] final case class LimitKey(name: String, value: Option[LimitValue] = None)

/** A value of a limit's key: a hash of 128 bits, which must not be the same for two. */
private[pillarbox] final case class LimitValue(high: Long, low: Long)
