package io.pillarbox.async

import java.util

/**
 * The queues of keys of which so many calls may be under way, or wait for a retry, at a time. A call comes to
 * the front of its key's queue, and stays there until it is admitted: those behind don't overtake it.
 *
 * @param isKnown answers a call without one, since the answer has come while it waited; true if it did
 * @param comes takes a call that has come to the front
 */
private[async] final class KeyQueues[IN, OUT](
    keyed: Keyed[IN],
    isKnown: InFlightElement[IN, OUT] => Boolean,
    comes: InFlightElement[IN, OUT] => Unit
) {
  private type Call = InFlightElement[IN, OUT]

  private val queues = new util.HashMap[AnyRef, KeyQueue]
  private var isClosed = false

  /** The number of calls that are not at the front. */
  var waiting = 0

  /** True if the call comes to the front at once; else it waits. */
  def passes(call: Call): Boolean = {
    val queue = queues.computeIfAbsent(keyed.keyOf(call.input), new KeyQueue(_))
    val passes = queue.passed < keyed.callsPerKey
    if (passes) queue.passed += 1
    else {
      queue.waiting.addLast(call)
      waiting += 1
    }
    passes
  }

  private def queueOf(call: Call): KeyQueue = queues.get(keyed.keyOf(call.input))

  /** Takes the key for a call that is admitted. */
  def take(call: Call): Unit = call.hold(queueOf(call))

  /** Ends a call that was not admitted; true if it was at the front. */
  def withdraw(call: Call): Boolean = {
    val queue = queueOf(call)
    val waited = queue.waiting.remove(call)
    if (waited) waiting -= 1 else queue.giveBack(call)
    !waited
  }

  /** Lets no call come any more. */
  def close(): Unit = isClosed = true

  /** The calls of one key: the number that are at the front or admitted, and those that wait. */
  private final class KeyQueue(key: AnyRef) extends Holding[IN, OUT] {
    var passed = 0
    val waiting = new util.ArrayDeque[Call]

    override def giveBack(call: Call): Unit = {
      passed -= 1
      while (passed < keyed.callsPerKey && !waiting.isEmpty && !isClosed) {
        KeyQueues.this.waiting -= 1
        val next = waiting.pollFirst()
        if (!isKnown(next)) {
          passed += 1
          comes(next)
        }
      }
      if (passed == 0 && waiting.isEmpty) queues.remove(key): Unit
    }
  }
}
