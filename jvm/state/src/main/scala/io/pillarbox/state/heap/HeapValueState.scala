package io.pillarbox.state.heap

import io.pillarbox.api.{StateDescriptor, TypeSerializer}
import io.pillarbox.state._
import io.pillarbox.state.changelog._

/** Keeps one object a key, with its timestamp in the column beside it: values, aggregates, accumulators. */
private[heap] final class HeapValueState[K, V](
    backend: HeapKeyedStateBackend[K],
    descriptor: StateDescriptor[_],
    id: Int
) extends HeapState[K](backend, descriptor, id, tableHasTimestamps = true, backend.tracksChanges)
    with TimestampedValue[V] {
  private val serializer = descriptor.valueSerializer.asInstanceOf[TypeSerializer[V]]

  override def value(): V = {
    val at = entry()
    if (at < 0) null.asInstanceOf[V] else table.value(at).asInstanceOf[V]
  }

  override def find(): Boolean = isThere(entry())

  override def timestamp: Long = if (hasTimestamps) table.timestamps(lastEntry) else StateClock.Unknown

  override def setTimestamp(timestamp: Long): Unit = setTimestamp(lastEntry, timestamp)

  override def put(value: V, timestamp: Long): Unit = {
    val at = entryForWrite()
    if (hasTimestamps) table.timestamps(at) = timestamp
    table.setValue(at, value.asInstanceOf[AnyRef])
    table.touch(at)
  }

  override def clear(): Unit = {
    val at = entry()
    if (isThere(at)) table.remove(at)
  }

  private def isThere(at: Int): Boolean = at >= 0 && table.value(at) != null

  private def setTimestamp(at: Int, timestamp: Long): Unit = {
    table.timestamps(at) = timestamp
    table.touch(at)
  }

  override protected def sweepOne(at: Int, upTo: Long, first: Long, gone: ExpirySink): Unit =
    if (Timestamped.isUpTo(table.timestamps(at), upTo, first)) {
      val (key, namespace, value) = (table.key(at), table.namespace(at), table.value(at))
      table.remove(at)
      gone.onExpire(key, namespace, null, value)
    } else if (first != StateClock.Unknown) setTimestamp(at, first)

  override def writeChanges(writer: StateStreamWriter): Unit = table.forEachChanged { at =>
    if (isAlive(at)) writeEntry(at, writer)
    else {
      writer.beginRemove()
      writePrefix(at, writer)
      writer.end()
    }
  }

  override def commitChanges(): Unit = table.commitChanges(at => if (!isAlive(at)) table.free(at))

  override protected def writeEntry(at: Int, writer: StateStreamWriter): Unit = {
    writer.beginPut()
    writePrefix(at, writer)
    writer.endKey()
    if (hasTimestamps) writer.out.writeLong(table.timestamps(at))
    serializer.serialize(table.value(at).asInstanceOf[V], writer.out)
    writer.end()
  }

  override protected def load(at: Int, record: RecordReader[K], plan: RestorePlan[AnyRef, AnyRef]): Unit =
    if (record.isPut) {
      val timestamp = plan.timestamp(record.value)
      table.setValue(at, plan.value(record.value))
      if (hasTimestamps) table.timestamps(at) = timestamp
      table.markCommitted(at)
      if (!plan.sameBytes) table.touch(at)
    } else table.free(at)
}
