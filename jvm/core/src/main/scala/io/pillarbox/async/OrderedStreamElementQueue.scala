package io.pillarbox.async

/**
 * Elements leave in the order in which they came: only the head may, once it is done.
 *
 * A ring that grows with what is in flight up to `capacity`, so a large capacity that is not used costs nothing.
 */
final class OrderedStreamElementQueue[IN, OUT](val capacity: Int) extends StreamElementQueue[IN, OUT] {
  require(capacity > 0, s"The capacity must be positive, not $capacity")

  private[this] var ring =
    new Array[StreamElementQueueEntry[IN, OUT]](OrderedStreamElementQueue.InitialLength)
  private[this] var head = 0
  private[this] var count = 0

  override def size: Int = count

  override def tryPut(entry: StreamElementQueueEntry[IN, OUT]): Boolean = {
    val fits = count < capacity
    if (fits) {
      if (count == ring.length) grow()
      ring((head + count) & (ring.length - 1)) = entry
      count += 1
    }
    fits
  }

  private def grow(): Unit = {
    val larger = new Array[StreamElementQueueEntry[IN, OUT]](ring.length * 2)
    val tillEnd = ring.length - head
    System.arraycopy(ring, head, larger, 0, tillEnd)
    System.arraycopy(ring, 0, larger, tillEnd, head)
    ring = larger
    head = 0
  }

  override def complete(entry: StreamElementQueueEntry[IN, OUT]): Unit = ()

  override def hasCompletedElements: Boolean = count > 0 && ring(head).isDone

  override def emitCompletedElement(output: AsyncOutput[IN, OUT]): Unit = if (hasCompletedElements) {
    val entry = ring(head)
    ring(head) = null
    head = (head + 1) & (ring.length - 1)
    count -= 1
    entry.emitTo(output)
  }

  override def foreach(action: StreamElementQueueEntry[IN, OUT] => Unit): Unit = {
    var i = 0
    while (i < count) {
      action(ring((head + i) & (ring.length - 1)))
      i += 1
    }
  }
}

private object OrderedStreamElementQueue {

  /** A power of two, as indices wrap by mask. */
  val InitialLength = 16
}
