package io.pillarbox.state.rocksdb

import java.util.ConcurrentModificationException

import scala.collection.mutable

import io.pillarbox.state._
import io.pillarbox.state.serialization.{Bytes, OutputView}

/**
 * One entry an element, named by a number that grows over all lists of the state: adding needs no read, removing
 * one element touches no other. Under OnReadAndWrite one more entry, without number, holds when the list was read last.
 */
private[rocksdb] final class RocksDBListState[K, T](
    backend: RocksDBKeyedStateBackend[K],
    descriptor: ListStateDescriptor[T],
    column: StateColumn,
    firstSequence: Long
) extends RocksDBState[K, T](backend, descriptor, column)
    with ListState[T]
    with TimestampedList {
  private[this] var sequence = firstSequence

  /** Grows with every change of any list. */
  private[this] var changes = 0L

  override def nextSequence: Long = sequence

  override def isEntry(userKeyLength: Int): Boolean = userKeyLength == java.lang.Long.BYTES

  override def add(value: T): Unit = {
    requireValue(value)
    backend.checkAccess()
    append(value, now())
  }

  override def addAll(values: Iterable[T]): Unit = {
    values.foreach(requireValue)
    backend.checkAccess()
    val time = now()
    values.foreach(append(_, time))
  }

  override def update(values: Iterable[T]): Unit = {
    val all = values.toVector
    all.foreach(requireValue)
    clear()
    addAll(all)
  }

  override def clear(): Unit = {
    backend.checkAccess()
    val scan = table.scan(column, prefixBytes())
    while (scan.next()) table.delete(column, keyOf(scan))
    changes += 1
  }

  override def get(): Iterator[T] = {
    backend.checkAccess()
    if (policy == null) new Elements else readAlive(policy.now)
  }

  override def timestamps: Iterator[Long] = {
    backend.checkAccess()
    val prefixLength = openKey().length
    val access = if (policy == null) ListAccess.Never else readAccess()
    val found = mutable.ArrayBuffer.empty[Long]
    val scan = table.scan(column, prefixBytes())
    while (scan.next())
      if (scan.key.length > prefixLength)
        found += (if (policy == null) StateClock.Unknown
                  else access.timestamp(numberOf(scan), viewOn(scan.value).readLong()))
    found.iterator
  }

  override def mergeNamespaces(target: Namespace, sources: Iterable[Namespace]): Unit =
    NamespaceMerge(backend, target, sources)(
      () => { val all = get().toVector; clear(); if (all.isEmpty) null else all },
      (all: Seq[Vector[T]]) => all.foreach(addAll)
    )

  private[this] def requireValue(value: T): Unit =
    if (value == null) throw StateErrors.nullValue(descriptor.name, "an element")

  private[this] def append(value: T, time: Long): Unit = {
    val at = openKey()
    at.writeLong(sequence)
    sequence += 1
    changes += 1
    store(at, value, if (policy == null) 0L else policy.stamp(time), isNew = true)
  }

  private[this] def keyOf(scan: EntryScan): OutputView = {
    val at = openKey()
    val prefix = at.length
    at.writeBytes(scan.key, prefix, scan.key.length - prefix)
    at
  }

  /** Removes what is expired, renews the rest by one write if reading renews, and returns what may be seen. */
  private[this] def readAlive(time: Long): Iterator[T] = {
    val limit = policy.limit(time)
    val prefixLength = openKey().length
    val access = readAccess()
    val stamp = if (policy.renewsOnRead) policy.stamp(time) else StateClock.Unknown
    val (seen, expired) = (mutable.ArrayBuffer.empty[T], mutable.ArrayBuffer.empty[T])
    var alive = 0
    val scan = table.scan(column, prefixBytes())
    while (scan.next()) if (scan.key.length > prefixLength) {
      val view = viewOn(scan.value)
      val own = view.readLong()
      val value = serializer.deserialize(view)
      if (policy.isExpired(access.timestamp(numberOf(scan), own), limit)) {
        table.delete(column, keyOf(scan))
        expired += value
        if (policy.returnsExpired) seen += value
      } else {
        alive += 1
        seen += value
        renewOne(scan, own, access, stamp, time)
      }
    }
    settle(alive, access, stamp)
    if (expired.nonEmpty) changes += 1
    expired.foreach(tellExpired(null, _))
    new Seen(seen)
  }

  private[this] def numberOf(scan: EntryScan): Long =
    Bytes.getLong(scan.key, scan.key.length - java.lang.Long.BYTES)

  private[this] def readAccess(): ListAccess =
    if (table.get(column, openKey())) ListAccess(table.value.readLong(), table.value.readLong())
    else ListAccess.Never

  /** Stamps one element: its first timestamp, or one that the access time can't express since the record is late. */
  private[this] def renewOne(
      scan: EntryScan,
      own: Long,
      access: ListAccess,
      stamp: Long,
      time: Long
  ): Unit = {
    val first = own == StateClock.Unknown && time != StateClock.Unknown
    val late = stamp < access.time && stamp > own && numberOf(scan) >= access.below
    if (first || late) {
      val at = keyOf(scan)
      if (table.get(column, at)) table.restamp(column, at, if (late) stamp else policy.stamp(time))
    }
  }

  /** Brings the access time in line with the elements that are left. */
  private[this] def settle(alive: Int, access: ListAccess, stamp: Long): Unit =
    if (alive == 0) {
      if (access ne ListAccess.Never) table.delete(column, openKey())
    } else if (
      stamp != StateClock.Unknown && stamp >= access.time && (stamp > access.time || access.below < sequence)
    ) {
      out.clear()
      out.writeLong(stamp)
      out.writeLong(sequence)
      table.put(column, openKey(), out)
    }

  /** Fails once the list or the key isn't that of the call to `get` any more. */
  private abstract class Guarded extends Iterator[T] {
    private[this] val context = backend.contextVersion
    private[this] val seenChanges = changes

    protected def check(): Unit =
      if (context != backend.contextVersion || seenChanges != changes)
        throw new ConcurrentModificationException(
          s"List state '${descriptor.name}' or its key changed while it was read"
        )
  }

  private final class Elements extends Guarded {
    private[this] val prefixLength = openKey().length
    private[this] val scan = table.scan(column, prefixBytes())
    private[this] var ready = false
    private[this] var ended = false

    override def hasNext: Boolean = {
      check()
      while (!ready && !ended)
        if (scan.next()) ready = scan.key.length > prefixLength
        else ended = true
      ready
    }

    override def next(): T = {
      if (!hasNext) throw new NoSuchElementException(s"The list of state '${descriptor.name}' ends here")
      ready = false
      serializer.deserialize(viewOn(scan.value))
    }
  }

  private final class Seen(values: mutable.ArrayBuffer[T]) extends Guarded {
    private[this] var at = 0

    override def hasNext: Boolean = {
      check()
      at < values.size
    }

    override def next(): T = {
      if (!hasNext) throw new NoSuchElementException(s"The list of state '${descriptor.name}' ends here")
      at += 1
      values(at - 1)
    }
  }
}

/** When a list was read last under OnReadAndWrite, and which elements were there: those with a number below `below`. */
private[rocksdb] final case class ListAccess(time: Long, below: Long) {
  def timestamp(number: Long, own: Long): Long = if (number < below) math.max(own, time) else own
}

private[rocksdb] object ListAccess {
  val Never: ListAccess = ListAccess(StateClock.Unknown, Long.MinValue)
}
