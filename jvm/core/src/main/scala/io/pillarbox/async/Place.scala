package io.pillarbox.async

import java.util

import scala.util.control.NonFatal

/**
 * Bounds the calls that are under way or wait for a retry by the capacity. Others wait here, in their order;
 * with a look-ahead, the function has them already. Mailbox thread only.
 */
private[async] final class Place[IN, OUT](way: CallWay[IN, OUT]) extends Stage[IN, OUT] {
  private val capacity = way.options.capacity
  private val lookAhead = way.options.lookAhead
  private var places = 0
  private val line = new util.ArrayDeque[InFlightElement[IN, OUT]]

  /** The function if it keeps places, null once it is about to be closed. */
  private var lender = way.function match {
    case keeper: LookAheadFunction[IN, OUT] => keeper
    case _ => null
  }

  override def enter(call: Call): Unit =
    if (places < capacity) take(call)
    else {
      line.addLast(call)
      if (lookAhead > 0) next.ahead(call)
    }

  private def take(call: Call): Unit = {
    places += 1
    way.metrics.admitted()
    goOn(call)
  }

  /** Takes a call that was answered while it waits here: it could not even be handed over. */
  override def due(call: Call): Unit = {
    line.remove(call): Unit
    take(call)
  }

  override def withdraw(call: Call): Unit = {
    line.remove(call): Unit
    tellUnanswered(call)
  }

  override def left(call: Call): Unit = {
    places -= 1
    way.metrics.finished()
    tellUnanswered(call)
    while (places < capacity && !line.isEmpty) take(line.pollFirst())
  }

  /** Tells a function with places of its own about the end of a call that it has not answered. */
  private def tellUnanswered(call: Call): Unit =
    if ((lender ne null) && ((call.current eq null) || !call.current.isAnswer))
      try lender.gaveUp(call.elementId)
      catch { case NonFatal(error) => CallWay.log.warn("Could not give up {}", call.elementId, error) }

  override def isFull: Boolean = places + line.size >= capacity + lookAhead

  override def close(): Unit = {
    line.clear()
    lender = null
  }
}
