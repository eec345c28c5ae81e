package io.pillarbox.async

import java.util

/**
 * Lets so many elements of one key be called at a time; others wait for their turn, in their order. Mailbox
 * thread only.
 *
 * @param limit
 *   elements of a key that are called, or wait for a retry, at a time
 * @param admit
 *   lets an element be called
 */
private[async] final class KeyLines[IN, OUT](
    limit: Int,
    keyOf: IN => AnyRef,
    admit: InFlightElement[IN, OUT] => Unit
) {
  private final class Line {
    var called = 0
    val waiting = new util.ArrayDeque[InFlightElement[IN, OUT]]
  }

  private val lines = new util.HashMap[AnyRef, Line]

  def enter(element: InFlightElement[IN, OUT]): Unit = {
    val line = lines.computeIfAbsent(keyOf(element.input), _ => new Line)
    if (line.called < limit) {
      line.called += 1
      admit(element)
    } else {
      element.phase = InFlightElement.InLine
      line.waiting.addLast(element)
    }
  }

  /** An element that was let in has its rows. */
  def leave(element: InFlightElement[IN, OUT]): Unit = {
    val key = keyOf(element.input)
    val line = lines.get(key)
    val next = line.waiting.pollFirst()
    if (next ne null) admit(next)
    else {
      line.called -= 1
      if (line.called == 0) CallDriver.ignore(lines.remove(key) ne null)
    }
  }
}
