package io.pillarbox.async

import scala.util.control.NonFatal

/**
 * The in-flight slots, as many as the capacity: of those that are under way, or wait for a retry or
 * a ticket. Mailbox thread only.
 *
 * @param onFree called when a call that is over has left its slot
 */
private[async] final class Slots[IN, OUT](pipeline: CallPipeline[IN, OUT], onFree: () => Unit)
    extends Holding[IN, OUT] {
  private type Call = InFlightElement[IN, OUT]

  private val capacity = pipeline.options.capacity

  /** The function if it keeps slots of its own, null once it is about to be closed. */
  private var lender = pipeline.function match {
    case keeper: LookAheadFunction[IN, OUT] => keeper
    case _ => null
  }

  /** True if calls are counted while they wait for a slot; those that the function has ahead are not. */
  private val countsWaiting = pipeline.options.lookAhead == 0

  var inUse = 0

  def isFree: Boolean = inUse < capacity

  /** Takes note of a call that may have to wait for a slot. */
  def comes(): Unit = if (countsWaiting) pipeline.metrics.admitted()

  def take(call: Call): Unit = {
    inUse += 1
    if (!countsWaiting) pipeline.metrics.admitted()
    call.hold(this)
  }

  /** Leaves the slot of a call that has to wait again. */
  def yieldBy(call: Call): Unit = {
    call.drop(this): Unit
    inUse -= 1
  }

  override def giveBack(call: Call): Unit = {
    inUse -= 1
    pipeline.metrics.finished()
    tellUnanswered(call)
    onFree()
  }

  /** Takes note of the end of a call that waited for a slot. */
  def withdraw(call: Call): Unit = {
    if (countsWaiting) pipeline.metrics.finished()
    tellUnanswered(call)
  }

  /** Tells a function with slots of its own about the end of a call that it has not answered. */
  private def tellUnanswered(call: Call): Unit =
    if ((lender ne null) && ((call.current eq null) || !call.current.isAnswer))
      try lender.gaveUp(call.elementId)
      catch { case NonFatal(error) => CallPipeline.log.warn("Could not give up {}", call.elementId, error) }

  def close(): Unit = lender = null
}
