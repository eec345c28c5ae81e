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
  private var without = 0
  private var isServing = false
  private val line = new util.ArrayDeque[InFlightElement[IN, OUT]]

  /** Calls that have passed and need a place again: what others wait for is theirs, so they go first. */
  private val returning = new util.ArrayDeque[InFlightElement[IN, OUT]]

  /** The function if it keeps places, null once it is about to be closed. */
  private var lender = way.function match {
    case keeper: LookAheadFunction[IN, OUT] => keeper
    case _ => null
  }

  /** The number of calls that have passed and wait for a permit without a place. */
  def outside: Int = without

  override def enter(call: Call): Unit =
    if (places < capacity && line.isEmpty) take(call)
    else {
      line.addLast(call)
      if (lookAhead > 0) next.ahead(call)
    }

  private def take(call: Call): Unit = {
    places += 1
    if (call.isOutside) {
      comesBack(call)
      call.at.due(call)
    } else {
      way.metrics.admitted()
      goOn(call)
    }
  }

  /**
   * Lets a call that has passed wait without its place, which others have meanwhile. A mail tells the operator
   * of the room, since no row leaves with it.
   */
  def stepOut(call: Call): Unit = {
    call.isOutside = true
    without += 1
    places -= 1
    serve()
    way.inbox.runSoon()
  }

  /** Gives it a place again, if there is one. Else it waits for one, and is told when it is `due`. */
  def stepIn(call: Call): Boolean = {
    val fits = returning.isEmpty && (places < capacity || takesOne())
    if (fits) {
      places += 1
      comesBack(call)
    } else returning.addLast(call)
    fits
  }

  /** Tells that a call waits in its place for the budget, of which calls may have a part that need a place. */
  def idles(): Unit = if (!returning.isEmpty && takesOne()) serve()

  /** Takes the place of a call that waits for the budget, which comes here again. */
  private def takesOne(): Boolean = {
    val idle = if (way.budgets eq null) null else way.budgets.pollLast()
    if (idle ne null) {
      way.giveBack(idle, this)
      places -= 1
      way.metrics.finished()
      line.addFirst(idle)
    }
    idle ne null
  }

  private def comesBack(call: Call): Unit = {
    call.isOutside = false
    without -= 1
  }

  /** A call that is let go may leave its place at once: a loop, not a recursion as deep as the line. */
  private def serve(): Unit = if (!isServing) {
    isServing = true
    try
      while (places < capacity && !(line.isEmpty && returning.isEmpty))
        take(if (returning.isEmpty) line.pollFirst() else returning.pollFirst())
    finally isServing = false
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
    if (call.isOutside) {
      comesBack(call)
      returning.remove(call): Unit
    } else places -= 1
    way.metrics.finished()
    tellUnanswered(call)
    serve()
  }

  /** Tells a function with places of its own about the end of a call that it has not answered. */
  private def tellUnanswered(call: Call): Unit =
    if ((lender ne null) && ((call.current eq null) || !call.current.isAnswer))
      try lender.gaveUp(call.elementId)
      catch { case NonFatal(error) => CallWay.log.warn("Could not give up {}", call.elementId, error) }

  override def isFull: Boolean = places + line.size >= capacity + lookAhead

  override def close(): Unit = {
    line.clear()
    returning.clear()
    lender = null
  }
}
