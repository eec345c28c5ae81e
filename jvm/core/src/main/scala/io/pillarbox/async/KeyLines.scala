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
    var isAdmitting = false
    val waiting = new util.ArrayDeque[InFlightElement[IN, OUT]]
  }

  private val lines = new util.HashMap[AnyRef, Line]

  def enter(element: InFlightElement[IN, OUT]): Unit = {
    val key = keyOf(element.input)
    val line = lines.computeIfAbsent(key, _ => new Line)
    element.phase = InFlightElement.InLine
    line.waiting.addLast(element)
    advance(key, line)
  }

  /** An element that was let in has its rows. */
  def leave(element: InFlightElement[IN, OUT]): Unit = {
    val key = keyOf(element.input)
    val line = lines.get(key)
    line.called -= 1
    advance(key, line)
  }

  /** A loop, since an element may have its rows without a call and leave while it is let in. */
  private def advance(key: AnyRef, line: Line): Unit = if (!line.isAdmitting) {
    line.isAdmitting = true
    try
      while (line.called < limit && !line.waiting.isEmpty) {
        line.called += 1
        admit(line.waiting.pollFirst())
      }
    finally line.isAdmitting = false
    if (line.called == 0) CallDriver.ignore(lines.remove(key) ne null)
  }
}
