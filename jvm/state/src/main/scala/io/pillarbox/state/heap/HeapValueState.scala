package io.pillarbox.state.heap

import io.pillarbox.api.{StateDescriptor, TypeSerializer}
import io.pillarbox.state._
import io.pillarbox.state.changelog._

/** Keeps one object a key, with its stamp in the column beside it: values, aggregates, accumulators. */
private[heap] final class HeapValueState[K, V](
    backend: HeapKeyedStateBackend[K],
    descriptor: StateDescriptor[_],
    id: Int
) extends HeapState[K](backend, descriptor, id, tableHasStamps = true, backend.tracksChanges)
    with StampedValue[V] {
  private val serializer = descriptor.valueSerializer.asInstanceOf[TypeSerializer[V]]

  override def value(): V = {
    val at = entry()
    if (at < 0) null.asInstanceOf[V] else table.value(at).asInstanceOf[V]
  }

  override def find(): Boolean = isThere(entry())

  override def stamp: Long = if (hasStamps) table.timestamps(lastEntry) else StateClock.Unknown

  override def restamp(stamp: Long): Unit = restamp(lastEntry, stamp)

  override def put(value: V, stamp: Long): Unit = {
    val at = entryForWrite()
    if (hasStamps) table.timestamps(at) = stamp
    table.setValue(at, value.asInstanceOf[AnyRef])
    table.touch(at)
  }

  override def clear(): Unit = {
    val at = entry()
    if (isThere(at)) table.remove(at)
  }

  private def isThere(at: Int): Boolean = at >= 0 && table.value(at) != null

  private def restamp(at: Int, stamp: Long): Unit = {
    table.timestamps(at) = stamp
    table.touch(at)
  }

  override protected def meet(at: Int, upTo: Long, first: Long, gone: ExpirySink): Unit =
    if (Stamped.isUpTo(table.timestamps(at), upTo, first)) {
      val (key, namespace, value) = (table.key(at), table.namespace(at), table.value(at))
      table.remove(at)
      gone.onExpire(key, namespace, null, value)
    } else if (first != StateClock.Unknown) restamp(at, first)

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
    if (hasStamps) writer.out.writeLong(table.timestamps(at))
    serializer.serialize(table.value(at).asInstanceOf[V], writer.out)
    writer.end()
  }

  override protected def load(at: Int, record: RecordReader[K], plan: RestorePlan[AnyRef, AnyRef]): Unit =
    if (record.isPut) {
      val stamp = plan.timestamp(record.value)
      table.setValue(at, plan.value(record.value))
      if (hasStamps) table.timestamps(at) = stamp
      table.markCommitted(at)
      if (!plan.sameBytes) table.touch(at)
    } else table.free(at)
}
