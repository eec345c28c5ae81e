package io.pillarbox.async.queue

import java.util

/** Lets elements leave in the order in which they came: only the head may, once it is done. */
private[pillarbox] final class OrderedStreamElementQueue[IN, OUT](val capacity: Int)
    extends StreamElementQueue[IN, OUT] {
  require(capacity > 0, s"The capacity must be positive, not $capacity")

  private val entries = new util.ArrayDeque[StreamElementQueueEntry[IN, OUT]]

  override def size: Int = entries.size

  override def tryPut(entry: StreamElementQueueEntry[IN, OUT]): Boolean =
    size < capacity && entries.add(entry)

  override def complete(entry: StreamElementQueueEntry[IN, OUT]): Unit = ()

  override def hasCompletedElements: Boolean = !entries.isEmpty && entries.peek.isDone

  override def emitCompletedElement(output: AsyncOutput[IN, OUT]): Unit =
    if (hasCompletedElements) entries.poll().emitTo(output)

  override def oldest: StreamElementQueueEntry[IN, OUT] = entries.peek

  override def foreach(action: StreamElementQueueEntry[IN, OUT] => Unit): Unit =
    entries.forEach(entry => action(entry))
}
