package io.pillarbox.async

import java.util

import io.pillarbox.async.journal.CallKey

/** A call that has a key. Mailbox thread only. */
private[async] final class KeyedCall[IN, OUT](val key: CallKey) {

  /**
   * The element that the call is made for, in place of those that share it: it is in no queue and has no
   * total deadline. Null where calls are not shared.
   */
  var carrier: InFlightElement[IN, OUT] = _

  /** Those that share it and wait, in the order in which they came; null where calls are not shared. */
  var sharers: util.LinkedHashSet[InFlightElement[IN, OUT]] = _
}

/**
 * The calls that elements with equal keys share: one for each key that is in flight. Mailbox thread only.
 *
 * @param start
 *   begins a call, for its carrier
 */
private[async] final class SharedCalls[IN, OUT](start: InFlightElement[IN, OUT] => Unit) {
  private val inFlight = new util.HashMap[CallKey, KeyedCall[IN, OUT]]
  private var joined = 0

  /** Elements that wait for the answer of a call which they share, alone or with others. */
  def waiting: Int = joined

  /** Lets the element wait for the call of its key, which begins if there is none. */
  def join(element: InFlightElement[IN, OUT], calls: CallDriver[IN, OUT]): Unit = {
    joined += 1
    val known = inFlight.get(element.keyed.key)
    val call = if (known ne null) known else element.keyed
    element.keyed = call
    element.phase = InFlightElement.Sharing
    if (known ne null) {
      call.sharers.add(element): Unit
      if (call.carrier.attempts > 0) calls.joins(element)
    } else {
      val carrier =
        new InFlightElement[IN, OUT](calls, element.elementId, element.input, element.timestampMs)
      carrier.keyed = call
      call.carrier = carrier
      call.sharers = new util.LinkedHashSet
      call.sharers.add(element): Unit
      inFlight.put(call.key, call)
      start(carrier)
    }
  }

  /** The call ends: who comes now needs another one. */
  def end(call: KeyedCall[IN, OUT]): Unit = inFlight.remove(call.key, call): Unit

  /**
   * The call has ended: decides those that share it, but those that have an answer of their own on its way.
   * All of them, even if `decision` throws.
   */
  def decide(carrier: InFlightElement[IN, OUT])(decision: InFlightElement[IN, OUT] => Unit): Unit = {
    val call = carrier.keyed
    end(call)
    val sharers = new util.ArrayList(call.sharers)
    call.sharers.clear()
    var problem: Throwable = null
    sharers.forEach { element =>
      if ((element.current eq null) || element.current.abandon())
        try decision(element)
        catch {
          case error: Throwable => if (problem eq null) problem = error else problem.addSuppressed(error)
        }
    }
    if (problem ne null) throw problem
  }

  /** The element is decided; whether nobody waits for its call any more. */
  def leave(element: InFlightElement[IN, OUT]): Boolean = {
    joined -= 1
    element.keyed.sharers.remove(element) && element.keyed.sharers.isEmpty
  }

  /** Hands all carriers over, and forgets them. */
  def endAll(visit: InFlightElement[IN, OUT] => Unit): Unit = {
    inFlight.values.forEach(call => visit(call.carrier))
    inFlight.clear()
  }
}
