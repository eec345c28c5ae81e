package io.pillarbox.state.heap

import io.pillarbox.api.{StateDescriptor, TypeSerializer}
import io.pillarbox.state._
import io.pillarbox.state.changelog._

/**
 * A [[HeapList]] a key. The table's timestamp is a lower bound of those of the elements, so that a sweep
 * touches few lists.
 */
private[heap] final class HeapListState[K, T](
    backend: HeapKeyedStateBackend[K],
    descriptor: StateDescriptor[_],
    id: Int
) extends HeapState[K](backend, descriptor, id, tableHasTimestamps = true, backend.tracksChanges)
    with TimestampedList[T] {
  private val serializer = descriptor.valueSerializer.asInstanceOf[TypeSerializer[T]]

  /** The number with which a new list begins: none of its key's lists before it has had it. */
  private var sequence = 0L
  private val removed = new RemovedElements

  override def add(value: T, timestamp: Long): Unit = {
    requireValue(value)
    append(entryForWrite(), value, timestamp)
  }

  override def addAll(values: Iterable[T], timestamp: Long): Unit = {
    values.foreach(requireValue)
    if (values.nonEmpty) {
      val at = entryForWrite()
      values.foreach(append(at, _, timestamp))
    }
  }

  override def clear(): Unit = {
    val at = entry()
    if (at >= 0 && table.value(at) != null) {
      if (table.isCommitted(at)) list(at).forEachRunBelow(list(at).committedBelow)(removed.add(at, _, _))
      drop(at)
    }
  }

  /**
   * Gives up a list whose removals are recorded; elements that follow begin a new list. Its place stays until
   * the next commit. A list that no commit has is not even looked at, which saves a miss of the processor's
   * caches.
   */
  private def drop(at: Int): Unit =
    if (backend.tracksChanges) {
      if (table.isCommitted(at)) {
        if (list(at).accessTimeCommitted) removed.add(at, RemovedElements.AccessTime, 1)
        table.markUncommitted(at)
      }
      table.setValue(at, null)
      if (hasTimestamps) table.timestamps(at) = Long.MaxValue
      table.touch(at)
    } else table.free(at)

  override def elements: Iterator[T] = elementsOf(entry())

  private def elementsOf(at: Int): Iterator[T] =
    if (at < 0 || list(at) == null || list(at).isEmpty) Iterator.empty else new Elements(at)

  override def timestamps: Iterator[Long] = {
    val at = entry()
    if (at < 0 || list(at) == null) Iterator.empty
    else {
      val elements = list(at)
      Iterator
        .range(elements.start, elements.end)
        .filter(elements.element(_) != null)
        .map(if (hasTimestamps) elements.timestamp else _ => StateClock.Unknown)
    }
  }

  override def page(from: Long)(take: (T, Long) => Boolean): Long = {
    val at = entry()
    if (at < 0 || list(at) == null) TimestampedList.End else pageOf(list(at), from, take)
  }

  private def pageOf(elements: HeapList, from: Long, take: (T, Long) => Boolean): Long = {
    var i = elements.firstElement(elements.firstFrom(from))
    var goesOn = true
    while (goesOn && i < elements.end) {
      val timestamp = if (hasTimestamps) elements.timestamp(i) else StateClock.Unknown
      goesOn = take(elements.element(i).asInstanceOf[T], timestamp)
      i = elements.firstElement(i + 1)
    }
    if (i < elements.end) elements.number(i) else TimestampedList.End
  }

  private def list(at: Int): HeapList = table.value(at).asInstanceOf[HeapList]

  private def ownList(at: Int): HeapList = {
    if (table.value(at) == null) table.setValue(at, new HeapList(sequence))
    list(at)
  }

  private def append(at: Int, value: T, timestamp: Long): Unit = {
    val elements = ownList(at)
    if (!hasTimestamps) elements.add(value.asInstanceOf[AnyRef])
    else {
      elements.add(value.asInstanceOf[AnyRef], timestamp)
      if (timestamp < table.timestamps(at)) table.timestamps(at) = timestamp
    }
    if (elements.nextNumber > sequence) sequence = elements.nextNumber
    table.touch(at)
  }

  override def read(upTo: Long, raiseTo: Long, first: Long, gone: ExpirySink): Iterator[T] = {
    val at = entry()
    if (at >= 0 && list(at) != null) {
      purge(at, upTo, first, gone)
      if (raiseTo != StateClock.Unknown && list(at) != null && !list(at).isEmpty) raise(at, list(at), raiseTo)
    }
    elementsOf(at)
  }

  /** Raises all elements by one write; but a late record raises only those that no later one has raised. */
  private def raise(at: Int, alive: HeapList, timestamp: Long): Unit = {
    if (timestamp >= alive.accessTime) {
      if (timestamp > alive.accessTime || alive.accessedBelow <= alive.number(alive.end - 1)) {
        alive.accessed(timestamp)
        table.touch(at)
      }
    } else {
      var i = alive.firstFrom(alive.accessedBelow)
      while (i < alive.end) {
        if (alive.element(i) != null && alive.ownTimestamp(i) < timestamp)
          setTimestamp(at, alive, i, timestamp)
        i += 1
      }
    }
    table.timestamps(at) = alive.earliest
  }

  override protected def sweepOne(at: Int, upTo: Long, first: Long, gone: ExpirySink): Unit =
    if (at != current) purge(at, upTo, first, gone)

  /** Removes the elements up to `upTo` from one list, and timestamps those without a timestamp. */
  private def purge(at: Int, upTo: Long, first: Long, gone: ExpirySink): Unit =
    if (table.timestamps(at) <= upTo) {
      val (elements, key, namespace) = (list(at), table.key(at), table.namespace(at))
      val expired = Vector.newBuilder[AnyRef]
      elements.forEachUpTo(upTo) { i =>
        if (Timestamped.isUpTo(elements.timestamp(i), upTo, first)) {
          expired += elements.element(i)
          if (backend.tracksChanges && elements.number(i) < elements.committedBelow)
            removed.add(at, elements.number(i), 1)
          elements.remove(i)
        } else if (first != StateClock.Unknown) setTimestamp(at, elements, i, first)
      }
      settle(at)
      expired.result().foreach(gone.onExpire(key, namespace, null, _))
    }

  /** Changes an element by its timestamp: its record is written again under its number. */
  private def setTimestamp(at: Int, elements: HeapList, i: Int, timestamp: Long): Unit = {
    elements.setTimestamp(i, timestamp)
    elements.rewriteFrom = math.min(elements.rewriteFrom, elements.number(i))
    table.touch(at)
  }

  /** Brings the table in line with a list that lost elements. */
  private def settle(at: Int): Unit =
    if (list(at).isEmpty) drop(at)
    else {
      table.timestamps(at) = list(at).earliest
      table.touch(at)
    }

  override def nextSequence: Long = sequence

  override protected def isAlive(at: Int): Boolean = super.isAlive(at) && !list(at).isEmpty

  override def writeChanges(writer: StateStreamWriter): Unit = {
    removed.forEach(writeRemoval(_, _, writer))
    table.forEachChanged { at =>
      val elements = list(at)
      if (elements != null) {
        if (elements.accessTimeChanged) writeAccessTime(at, elements, writer)
        writeElements(at, math.min(elements.committedBelow, elements.rewriteFrom), writer)
      }
    }
  }

  private def writeRemoval(at: Int, number: Long, writer: StateStreamWriter): Unit = {
    writer.beginRemove()
    writePrefix(at, writer)
    if (number != RemovedElements.AccessTime) writer.out.writeLong(number)
    writer.end()
  }

  override def commitChanges(): Unit = {
    removed.clear()
    table.commitChanges { at =>
      if (list(at) == null) table.free(at) else list(at).committed()
    }
  }

  override protected def writeEntry(at: Int, writer: StateStreamWriter): Unit = {
    if (list(at).accessTime != Long.MinValue) writeAccessTime(at, list(at), writer)
    writeElements(at, Long.MinValue, writer)
  }

  private def writeAccessTime(at: Int, elements: HeapList, writer: StateStreamWriter): Unit = {
    writer.beginPut()
    writePrefix(at, writer)
    writer.endKey()
    writer.out.writeLong(elements.accessTime)
    writer.out.writeLong(elements.accessedBelow)
    writer.end()
  }

  private def writeElements(at: Int, from: Long, writer: StateStreamWriter): Unit = {
    val elements = list(at)
    var i = elements.firstFrom(from)
    while (i < elements.end) {
      if (elements.element(i) != null) {
        writer.beginPut()
        writePrefix(at, writer)
        writer.out.writeLong(elements.number(i))
        writer.endKey()
        if (hasTimestamps) writer.out.writeLong(elements.ownTimestamp(i))
        serializer.serialize(elements.element(i).asInstanceOf[T], writer.out)
        writer.end()
      }
      i += 1
    }
  }

  override def restore(raw: RawState[K]): Unit = {
    super.restore(raw)
    sequence = raw.meta.nextSequence
  }

  override protected def load(at: Int, record: RecordReader[K], plan: RestorePlan[AnyRef, AnyRef]): Unit = {
    val elements = ownList(at)
    if (record.userKey.remaining == 0) loadAccessTime(elements, record, plan)
    else if (record.isPut) loadElement(at, elements, record, plan)
    else loadRemoval(elements, record.userKey.readLong())
    table.markCommitted(at)
    if (hasTimestamps) table.timestamps(at) = math.min(table.timestamps(at), elements.earliest)
    if (elements.isEmpty && !elements.accessTimeCommitted) table.free(at)
  }

  private def loadAccessTime(
      elements: HeapList,
      record: RecordReader[K],
      plan: RestorePlan[AnyRef, AnyRef]
  ): Unit = {
    val renewals = elements.ownRenewals
    val counts = record.isPut && plan.keepsTimestamps
    renewals.committed = record.isPut
    renewals.time = if (counts) record.value.readLong() else Long.MinValue
    renewals.below = if (counts) record.value.readLong() else Long.MinValue
    elements.skipTo(renewals.below)
    renewals.changed = record.isPut && !plan.keepsTimestamps
  }

  private def loadElement(
      at: Int,
      elements: HeapList,
      record: RecordReader[K],
      plan: RestorePlan[AnyRef, AnyRef]
  ): Unit = {
    val number = record.userKey.readLong()
    val timestamp = plan.timestamp(record.value)
    elements.put(plan.value(record.value), number, if (hasTimestamps) timestamp else 0L)
    if (!plan.sameBytes) {
      elements.rewriteFrom = Long.MinValue
      table.touch(at)
    }
  }

  private def loadRemoval(elements: HeapList, number: Long): Unit = {
    val i = elements.firstFrom(number)
    if (i < elements.end && elements.number(i) == number && elements.element(i) != null)
      elements.remove(i)
  }

  private final class Elements(place: Int) extends Iterator[T] {
    private val elements = list(place)
    private val context = backend.contextVersion
    private val changes = elements.changes
    private var at = elements.firstElement(elements.start)
    private val end = elements.end

    override def hasNext: Boolean = at < end || {
      check()
      false
    }

    override def next(): T = {
      check()
      if (at >= end) throw StateErrors.ends("list", descriptor.name)
      val element = elements.element(at)
      at = elements.firstElement(at + 1)
      element.asInstanceOf[T]
    }

    private def check(): Unit =
      if (
        context != backend.contextVersion || (table.value(place) ne elements) || changes != elements.changes
      )
        throw StateErrors.changed("List", descriptor.name)
  }
}
