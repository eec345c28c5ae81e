package io.pillarbox.async.queue

/**
 * Lets elements leave as soon as they are done, but none passes a watermark.
 *
 * Watermarks cut the elements into segments. Inside a segment the order is that of completion; a segment's
 * watermark leaves when all its records have left, and only then may records of the next segment leave. Every
 * operation takes constant time and allocates nothing, but for a segment a watermark: the entries are linked
 * in the order they were put, which is that of a snapshot, and a second time in the order they were done.
 */
private[pillarbox] class UnorderedStreamElementQueue[IN, OUT](val capacity: Int)
    extends StreamElementQueue[IN, OUT] {
  require(capacity > 0, s"The capacity must be positive, not $capacity")

  private var first: StreamElementQueueEntry[IN, OUT] = _
  private var last: StreamElementQueueEntry[IN, OUT] = _
  private var firstSegment = new UnorderedSegment[IN, OUT]
  private var lastSegment = firstSegment
  private var count = 0

  override def size: Int = count

  override def tryPut(entry: StreamElementQueueEntry[IN, OUT]): Boolean = {
    val fits = count < capacity
    if (fits) {
      link(entry)
      if (entry.isWatermark) closeSegment(entry)
      else {
        lastSegment.add(entry)
        if (entry.isDone) complete(entry)
      }
    }
    fits
  }

  private def closeSegment(watermark: StreamElementQueueEntry[IN, OUT]): Unit = {
    lastSegment.watermark = watermark
    val fresh = new UnorderedSegment[IN, OUT]
    lastSegment.next = fresh
    lastSegment = fresh
  }

  override def complete(entry: StreamElementQueueEntry[IN, OUT]): Unit = entry.segment.complete(entry)

  override def hasCompletedElements: Boolean = firstSegment.hasCompleted

  override def emitCompletedElement(output: AsyncOutput[IN, OUT]): Unit = if (hasCompletedElements) {
    var entry = firstSegment.pollCompleted()
    if (entry eq null) {
      entry = firstSegment.watermark
      firstSegment = firstSegment.next
    }
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

/** The records between two watermarks, with the watermark that ends them once it has come. */
private[async] final class UnorderedSegment[IN, OUT] {
  private var records = 0
  private var firstCompleted: StreamElementQueueEntry[IN, OUT] = _
  private var lastCompleted: StreamElementQueueEntry[IN, OUT] = _

  var watermark: StreamElementQueueEntry[IN, OUT] = _
  var next: UnorderedSegment[IN, OUT] = _

  def add(entry: StreamElementQueueEntry[IN, OUT]): Unit = {
    entry.segment = this
    records += 1
  }

  def complete(entry: StreamElementQueueEntry[IN, OUT]): Unit = {
    if (firstCompleted eq null) firstCompleted = entry else lastCompleted.nextCompleted = entry
    lastCompleted = entry
  }

  def hasCompleted: Boolean = (firstCompleted ne null) || (records == 0 && (watermark ne null))

  /** The record that was done first, or null. */
  def pollCompleted(): StreamElementQueueEntry[IN, OUT] = {
    val entry = firstCompleted
    if (entry ne null) {
      firstCompleted = entry.nextCompleted
      entry.nextCompleted = null
      entry.segment = null
      records -= 1
    }
    entry
  }
}
