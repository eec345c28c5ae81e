package io.pillarbox.async

import java.util

/**
 * Sends calls to limits that have a key: of each of its values one at a time, the next when that has begun.
 * Others wait here for their turn, in their order, without a place among the calls under way, so that a value
 * at its limit leaves room for others. A value is forgotten with its last call. Mailbox thread only.
 *
 * @param mostWaiting the number of calls that may wait, here and for a permit, before nothing more is taken in
 */
private[async] final class LaneTurn[IN, OUT](
    way: CallWay[IN, OUT],
    gates: ValueGates[IN],
    limits: Limits[IN, OUT],
    mostWaiting: Int
) extends Stage[IN, OUT] {
  private val values = new util.HashMap[AnyRef, LaneValue[IN, OUT]]
  private var standing = 0

  /** The number of calls that wait here, or for a permit. */
  def waiting: Int = standing + way.place.outside

  /** The number of values that have calls. */
  private[async] def size: Int = values.size

  override def enter(call: Call): Unit = {
    val value = values.computeIfAbsent(gates.valueOf(call.input), open(_))
    call.value = value
    value.calls += 1
    if (value.coming eq null) letGo(value, call)
    else {
      value.waiting.addLast(call)
      standing += 1
    }
  }

  private def open(key: AnyRef): LaneValue[IN, OUT] = {
    val held = gates.open(key)
    new LaneValue(key, held, new Lane(way, limits, held.gate, this))
  }

  private def letGo(value: LaneValue[IN, OUT], call: Call): Unit = {
    value.coming = call
    goOn(call)
  }

  /** Tells that a call has its permits: the next of its value may come. */
  def begun(call: Call): Unit = if (call.value.coming eq call) {
    val value = call.value
    value.coming = null
    // One that begins at once calls this again: a loop, as a recursion would be as deep as the line is long.
    if (!value.isSending) {
      value.isSending = true
      try
        while ((value.coming eq null) && !value.waiting.isEmpty) {
          standing -= 1
          letGo(value, value.waiting.pollFirst())
        }
      finally value.isSending = false
    }
  }

  override def withdraw(call: Call): Unit = {
    if (call.value.waiting.remove(call)) standing -= 1
    leave(call.value)
  }

  override def left(call: Call): Unit = {
    begun(call)
    leave(call.value)
  }

  private def leave(value: LaneValue[IN, OUT]): Unit = {
    value.calls -= 1
    if (value.calls == 0) {
      values.remove(value.key): Unit
      value.close()
    }
  }

  override def isFull: Boolean = waiting >= mostWaiting

  override def close(): Unit = values.values.forEach { value =>
    value.waiting.clear()
    value.lane.close()
  }
}

/**
 * A value of the keys of limits, which has calls.
 *
 * @param held its part in the limits
 */
private[async] final class LaneValue[IN, OUT](val key: AnyRef, held: ValueGate, val lane: Lane[IN, OUT]) {
  var calls = 0

  /** The call that was sent to the limits and has not begun; null for none. */
  var coming: InFlightElement[IN, OUT] = _
  val waiting = new util.ArrayDeque[InFlightElement[IN, OUT]]
  var isSending = false

  def close(): Unit = {
    lane.close()
    held.close()
  }
}
