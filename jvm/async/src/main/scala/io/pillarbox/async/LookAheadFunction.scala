package io.pillarbox.async

import io.pillarbox.api.AsyncFunction

/**
 * A function that is handed elements before their turn ([[AsyncOptions.lookAhead]]), and keeps as many slots
 * as the capacity.
 *
 * A first attempt takes a slot or, if none is free, waits for one; an element leaves its slot when the
 * future is completed with rows, or when the operator has [[gaveUp]]. Further attempts start in the slot of
 * the first. The operator counts along, so deadlines of an element that waits don't run yet.
 */
private[pillarbox] trait LookAheadFunction[IN, OUT] extends AsyncFunction[IN, OUT] {

  /** Tells that this element has failed for good; may be told twice. Mailbox thread. */
  def gaveUp(elementId: Long): Unit
}
