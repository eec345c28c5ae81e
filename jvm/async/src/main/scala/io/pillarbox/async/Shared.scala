package io.pillarbox.async

import java.util

import io.pillarbox.metered.journal.CallKey

/**
 * A call that several elements share. Mailbox thread only.
 *
 * @param carrier the element that the call is made for, in place of those that share it: it is in no queue
 *   and has no total deadline
 * @param onEnd called when the call is over
 */
private[async] final class SharedCall[IN, OUT](
    val carrier: InFlightElement[IN, OUT],
    onEnd: SharedCall[IN, OUT] => Unit
) extends Holding[IN, OUT] {

  /** The elements that wait for it, in the order in which they came. */
  val sharers = new util.LinkedHashSet[InFlightElement[IN, OUT]]

  private var isPaid = false

  /** True once, for the element whose account has the call: the first, or else the last that waits for it. */
  def pays(): Boolean = {
    val pays = !isPaid && sharers.size <= 1
    isPaid ||= pays
    pays
  }

  /** Makes the next element with this key begin a new call. */
  override def giveBack(carrier: InFlightElement[IN, OUT]): Unit = onEnd(this)

  def add(element: InFlightElement[IN, OUT]): Unit = {
    element.share = this
    sharers.add(element): Unit
  }
}

/**
 * Lets elements with equal keys that are in flight together share one call. They stay here; a carrier goes
 * on. Mailbox thread only.
 */
private[async] final class Shared[IN, OUT](pipeline: CallPipeline[IN, OUT]) extends Stage[IN, OUT] {
  private val inFlight = new util.HashMap[CallKey, SharedCall[IN, OUT]]

  override def enter(call: Call): Unit = {
    val known = inFlight.get(call.key)
    if (known eq null) begin(call)
    else {
      known.add(call)
      pipeline.metrics.shared += 1
      if (known.carrier.hasStarted) pipeline.deadlines.joins(call)
    }
  }

  private def begin(call: Call): Unit = {
    val carrier = new InFlightElement[IN, OUT](pipeline, call.elementId, call.input, call.timestampMs)
    carrier.key = call.key
    carrier.share = new SharedCall(carrier, forget(_))
    carrier.share.add(call)
    carrier.hold(carrier.share)
    inFlight.put(call.key, carrier.share)
    goOn(carrier)
  }

  override def ended(call: Call, attempt: CallAttempt[IN, OUT]): Boolean = {
    if (call.isCarrier)
      try decide(call, attempt)
      finally pipeline.leave(call)
    !call.isCarrier
  }

  /**
   * Decides all elements that share the call, even if the failure policy throws, except those that have an
   * answer of their own on its way.
   */
  private def decide(carrier: Call, attempt: CallAttempt[IN, OUT]): Unit = {
    forget(carrier.share)
    val sharers = new util.ArrayList(carrier.share.sharers)
    carrier.share.sharers.clear()
    var problem: Throwable = null
    sharers.forEach { sharer =>
      if ((sharer.current eq null) || sharer.current.abandon())
        try {
          sharer.attempts = carrier.attempts
          pipeline.out(sharer, attempt)
        } catch {
          case error: Throwable => if (problem eq null) problem = error else problem.addSuppressed(error)
        }
    }
    if (problem ne null) throw problem
  }

  private def forget(shared: SharedCall[IN, OUT]): Unit =
    inFlight.remove(shared.carrier.key, shared): Unit

  /** Cancels a call that no element waits for any more. */
  override def withdraw(sharer: Call): Unit = {
    val sharers = sharer.share.sharers
    if (sharers.remove(sharer) && sharers.isEmpty) pipeline.cancel(sharer.share.carrier): Unit
  }

  override def close(): Unit = new util.ArrayList(inFlight.values).forEach { shared =>
    shared.sharers.clear()
    pipeline.abandon(shared.carrier)
  }
}
