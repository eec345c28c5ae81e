package io.pillarbox.async

/**
 * Something that calls hold until they are over, and that gives itself back: a slot, a key, a budget's charge.
 * One object may be held by many calls, each once. Mailbox thread only.
 */
private[async] abstract class Holding[IN, OUT] {

  /** The list of a call that holds nothing else: most hold one thing, and need no list of their own. */
  private[async] final val alone: Held[IN, OUT] = new Held(this, null)

  /** Takes it back from a call that is over, and no longer has it on its list. */
  def giveBack(call: InFlightElement[IN, OUT]): Unit
}

/** What a call holds: the last that it took, and the rest, null for none. */
private[async] final class Held[IN, OUT](val last: Holding[IN, OUT], val rest: Held[IN, OUT]) {

  /** Returns the list without one that is on it. */
  def without(holding: Holding[IN, OUT]): Held[IN, OUT] =
    if (last eq holding) rest else new Held(last, rest.without(holding))

  def has(holding: Holding[IN, OUT]): Boolean =
    (last eq holding) || ((rest ne null) && rest.has(holding))
}
