package io.pillarbox.async.queue

import java.util

/**
 * Lets elements of one key leave in the order in which they came, those of different keys as they are done.
 *
 * @param keyOf returns the key of a record's input
 */
private[pillarbox] final class KeyOrderedStreamElementQueue[IN, OUT](capacity: Int, keyOf: IN => AnyRef)
    extends UnorderedStreamElementQueue[IN, OUT](capacity) {

  /** The elements of each key that may not leave yet, in their order; no queue here is empty. */
  private val lines = new util.HashMap[AnyRef, util.ArrayDeque[StreamElementQueueEntry[IN, OUT]]]

  override def tryPut(entry: StreamElementQueueEntry[IN, OUT]): Boolean = {
    // Before `super`: an entry that is put with its rows completes inside.
    if (size < capacity)
      lines.computeIfAbsent(keyOf(entry.input), _ => new util.ArrayDeque).addLast(entry)
    super.tryPut(entry)
  }

  /** Lets the entry leave if it is the first of its key, with those behind it that are done. */
  override def complete(entry: StreamElementQueueEntry[IN, OUT]): Unit = {
    val key = keyOf(entry.input)
    val line = lines.get(key)
    if (line.peekFirst eq entry) {
      while (!line.isEmpty && line.peekFirst.isDone) super.complete(line.pollFirst())
      if (line.isEmpty) lines.remove(key)
    }
  }
}
