package io.pillarbox.async

import java.util

/**
 * Limits the calls of a key that go on at a time, with those that wait for a retry; others wait here for
 * their turn, in their order. Mailbox thread only.
 *
 * @param mostWaiting the number of calls that may wait here before nothing more is taken in
 */
private[async] final class KeyTurn[IN, OUT](keyed: Keyed[IN], mostWaiting: Int) extends Stage[IN, OUT] {
  private val lines = new util.HashMap[AnyRef, KeyLine[IN, OUT]]
  private var standing = 0

  /** The number of calls that wait here. */
  def waiting: Int = standing

  override def enter(call: Call): Unit = {
    val line = lines.computeIfAbsent(keyed.keyOf(call.input), new KeyLine(_))
    call.line = line
    if (line.called < keyed.callsPerKey) letGo(line, call)
    else {
      line.waiting.addLast(call)
      standing += 1
    }
  }

  private def letGo(line: KeyLine[IN, OUT], call: Call): Unit = {
    line.called += 1
    goOn(call)
  }

  override def withdraw(call: Call): Unit = if (call.line.waiting.remove(call)) standing -= 1

  override def left(call: Call): Unit = {
    val line = call.line
    line.called -= 1
    if (!line.waiting.isEmpty) {
      standing -= 1
      letGo(line, line.waiting.pollFirst())
    } else if (line.called == 0) lines.remove(line.key): Unit
  }

  override def isFull: Boolean = standing >= mostWaiting

  override def close(): Unit = lines.values.forEach(_.waiting.clear())
}

/** The calls of one key: the number that have gone on, and those that wait for their turn. */
private[async] final class KeyLine[IN, OUT](val key: AnyRef) {
  var called = 0
  val waiting = new util.ArrayDeque[InFlightElement[IN, OUT]]
}
