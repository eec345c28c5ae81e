package io.pillarbox.async.queue

/**
 * Lets elements leave in the order in which they are done. Every operation takes constant time and allocates
 * nothing: the entries are linked in the order they were put, which is that of a snapshot, and a second time
 * in the order of completion.
 */
private[pillarbox] class UnorderedStreamElementQueue[IN, OUT](val capacity: Int)
    extends StreamElementQueue[IN, OUT] {
  require(capacity > 0, s"The capacity must be positive, not $capacity")

  private var first: StreamElementQueueEntry[IN, OUT] = _
  private var last: StreamElementQueueEntry[IN, OUT] = _
  private var firstCompleted: StreamElementQueueEntry[IN, OUT] = _
  private var lastCompleted: StreamElementQueueEntry[IN, OUT] = _
  private var count = 0

  override def size: Int = count

  override def tryPut(entry: StreamElementQueueEntry[IN, OUT]): Boolean = {
    val fits = count < capacity
    if (fits) {
      link(entry)
      if (entry.isDone) complete(entry)
    }
    fits
  }

  override def complete(entry: StreamElementQueueEntry[IN, OUT]): Unit = {
    if (firstCompleted eq null) firstCompleted = entry else lastCompleted.nextCompleted = entry
    lastCompleted = entry
  }

  override def hasCompletedElements: Boolean = firstCompleted ne null

  override def emitCompletedElement(output: AsyncOutput[IN, OUT]): Unit = if (hasCompletedElements) {
    val entry = firstCompleted
    firstCompleted = entry.nextCompleted
    entry.nextCompleted = null
    unlink(entry)
    entry.emitTo(output)
  }

  private def link(entry: StreamElementQueueEntry[IN, OUT]): Unit = {
    entry.previous = last
    if (last eq null) first = entry else last.next = entry
    last = entry
    count += 1
  }

  private def unlink(entry: StreamElementQueueEntry[IN, OUT]): Unit = {
    val before = entry.previous
    val after = entry.next
    if (before eq null) first = after else before.next = after
    if (after eq null) last = before else after.previous = before
    entry.previous = null
    entry.next = null
    count -= 1
  }

  override def oldest: StreamElementQueueEntry[IN, OUT] = first

  override def foreach(action: StreamElementQueueEntry[IN, OUT] => Unit): Unit = {
    var entry = first
    while (entry ne null) {
      val following = entry.next
      action(entry)
      entry = following
    }
  }
}
