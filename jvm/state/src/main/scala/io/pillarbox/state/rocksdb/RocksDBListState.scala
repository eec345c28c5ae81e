package io.pillarbox.state.rocksdb

import scala.collection.mutable

import io.pillarbox.api.{Bytes, OutputView, StateDescriptor}
import io.pillarbox.state._
import io.pillarbox.state.rocksdb.entries.StateColumn
import io.pillarbox.state.rocksdb.list._

/**
 * Elements in chunks ([[PackedLists]]), each with a number that grows over all lists of the state. Commits
 * hold single elements by number, and an element that expires or is renewed costs its chunk, not the list.
 */
private[rocksdb] final class RocksDBListState[K, T](
    backend: RocksDBKeyedStateBackend[K],
    descriptor: StateDescriptor[_],
    column: StateColumn,
    firstSequence: Long
) extends RocksDBState[K, T](backend, descriptor, column)
    with TimestampedList[T] {
  private val lists = new PackedLists(table, column)
  private val builder = new ListChunkBuilder
  column.committedBelow = firstSequence
  private var sequence = firstSequence

  /** Grows with every change of any list. */
  private var changes = 0L

  override def nextSequence: Long = sequence

  override def add(value: T, timestamp: Long): Unit = {
    requireValue(value)
    backend.checkAccess()
    append(value, timestamp)
  }

  override def addAll(values: Iterable[T], timestamp: Long): Unit = {
    values.foreach(requireValue)
    backend.checkAccess()
    values.foreach(append(_, timestamp))
  }

  override def clear(): Unit = {
    backend.checkAccess()
    val head = lists.head(openKey())
    if (head != null) {
      if (head.isSplit) {
        val others = lists.others(openKey())
        while (others.next()) {
          logRemoved(others.chunk)
          lists.remove(keyOf(others))
        }
      }
      logRemoved(head)
      if (head.access ne ListAccess.Never) table.logRemoved(column, openKey())
      lists.remove(openKey())
    }
    changes += 1
  }

  override def elements: Iterator[T] = {
    backend.checkAccess()
    new Elements
  }

  override def timestamps: Iterator[Long] = {
    backend.checkAccess()
    val head = lists.head(openKey())
    val found = mutable.ArrayBuffer.empty[Long]
    if (head != null) forEachChunk(head) { (chunk, _) =>
      while (chunk.next()) found += head.access.timestamp(chunk.number, timestampOf(chunk))
    }
    found.iterator
  }

  /** Pages end behind whole chunks; the head is a page's last one, or a page of its own. */
  override def page(from: Long)(take: (T, Long) => Boolean): Long = {
    backend.checkAccess()
    val head = lists.head(openKey())
    if (head == null) TimestampedList.End
    else {
      val next =
        if (head.isSplit && from != RocksDBListState.InHead) pageOfOthers(head.access, from, take)
        else TimestampedList.End
      if (next == TimestampedList.End) takeAll(head, head.access, take): Unit
      next
    }
  }

  /**
   * Returns the place behind the chunks that were taken; End if none is left but the head, which may follow.
   */
  private def pageOfOthers(access: ListAccess, from: Long, take: (T, Long) => Boolean): Long = {
    val others = lists.others(openKey(), from)
    var goesOn = true
    while (goesOn && others.next()) goesOn = takeAll(others.chunk, access, take)
    if (goesOn) TimestampedList.End else if (others.next()) others.number else RocksDBListState.InHead
  }

  private def takeAll(chunk: ListChunk, access: ListAccess, take: (T, Long) => Boolean): Boolean = {
    var goesOn = true
    while (chunk.next())
      if (!take(valueOf(chunk), access.timestamp(chunk.number, timestampOf(chunk)))) goesOn = false
    goesOn
  }

  private def append(value: T, timestamp: Long): Unit = {
    out.clear()
    if (hasTimestamps) out.writeLong(timestamp)
    serializer.serialize(value, out)
    lists.append(openKey(), sequence, out.array, 0, out.length)
    table.countLive(1)
    out.shrinkTo(OutputView.IdleBytes)
    sequence += 1
    changes += 1
  }

  /** Walks from the oldest chunk to the head, with the key of each chunk, null for the head. */
  private def forEachChunk(head: ListChunk)(action: (ListChunk, Array[Byte]) => Unit): Unit = {
    if (head.isSplit) {
      val others = lists.others(openKey())
      while (others.next()) action(others.chunk, others.key)
    }
    action(head, null)
  }

  private def numbered(number: Long): OutputView = {
    val at = openKey()
    at.writeLong(number)
    at
  }

  private def keyOf(others: OtherChunks): OutputView = keyOf(others.key)

  private def keyOf(bytes: Array[Byte]): OutputView = {
    val at = openKey()
    if (bytes != null) at.writeBytes(bytes, at.length, bytes.length - at.length)
    at
  }

  private def timestampOf(chunk: ListChunk): Long =
    if (hasTimestamps) Bytes.getLong(chunk.array, chunk.valueOffset) else StateClock.Unknown

  private def valueOf(chunk: ListChunk): T = {
    val timestamp = if (hasTimestamps) java.lang.Long.BYTES else 0
    serializer.deserialize(viewOn(chunk.array, chunk.valueOffset + timestamp, chunk.valueLength - timestamp))
  }

  /** Records removals for the next commit, except of elements that no commit has. */
  private def logRemoved(chunk: ListChunk): Unit = {
    val told = builder.begin(isSplit = false, ListAccess.Never)
    while (chunk.next()) {
      if (chunk.number < column.committedBelow) told.add(chunk.number, chunk.array, 0, 0)
      table.countLive(-1)
    }
    if (told.count > 0) {
      val at = openKey()
      ListChanges.writeRemovedKey(at, chunk.first)
      table.logPut(column, at, told.finish())
    }
  }

  private def logRemoved(number: Long): Unit = {
    if (number < column.committedBelow) table.logRemoved(column, numbered(number))
    table.countLive(-1)
  }

  override def read(upTo: Long, raiseTo: Long, first: Long, gone: ExpirySink): Iterator[T] = {
    backend.checkAccess()
    val head = lists.head(openKey())
    if (head == null) new Seen(mutable.ArrayBuffer.empty[T])
    else {
      val pass = new Pass(head, upTo, raiseTo, first)
      forEachChunk(head)((chunk, key) => if (key == null) pass.readHead() else pass.read(chunk, key))
      if (pass.expired.nonEmpty) changes += 1
      pass.expired.foreach(gone.onExpire(backend.currentKey, backend.namespace, null, _))
      if (pass.isAllKept) new Seen(pass.alive) else new Elements
    }
  }

  /** One pass over a list's timestamps. */
  private final class Pass(head: ListChunk, upTo: Long, raiseTo: Long, first: Long) {
    private val access = head.access
    private var othersAlive = 0
    private var changed = false
    private var headIsDue = false

    /** The elements that are left, if they are few; else they are read again one by one. */
    val alive = mutable.ArrayBuffer.empty[T]
    private var left = 0
    val expired = mutable.ArrayBuffer.empty[T]

    def read(chunk: ListChunk, key: Array[Byte]): Unit = {
      changed = false
      builder.begin(isSplit = false, ListAccess.Never)
      readElements(chunk)
      othersAlive = left
      if (builder.count == 0) lists.remove(keyOf(key))
      else if (changed) {
        lists.replace(keyOf(key), builder)
        // Compaction must not drop the head before a chunk that was written after it.
        headIsDue = true
      }
    }

    def readHead(): Unit = {
      changed = headIsDue
      builder.begin(head.isSplit, access)
      readElements(head)
      val renewed = newAccess()
      if (left == 0) {
        if (access ne ListAccess.Never) table.logRemoved(column, openKey())
        lists.remove(openKey())
      } else if (changed || (renewed ne access) || head.isSplit != (othersAlive > 0)) rewriteHead(renewed)
    }

    def isAllKept: Boolean = left <= RocksDBListState.MostKept

    private def keep(value: T): Unit = {
      left += 1
      if (isAllKept) alive += value else alive.clear()
    }

    private def readElements(chunk: ListChunk): Unit = while (chunk.next()) {
      val own = timestampOf(chunk)
      val value = valueOf(chunk)
      if (Timestamped.isUpTo(access.timestamp(chunk.number, own), upTo, first)) {
        logRemoved(chunk.number)
        changed = true
        expired += value
      } else {
        keep(value)
        renew(chunk, own)
        builder.add(chunk.number, chunk.array, chunk.valueOffset, chunk.valueLength)
      }
    }

    /**
     * Sets an element's first timestamp, or one that the access time can't express since the record is late.
     */
    private def renew(chunk: ListChunk, own: Long): Unit = {
      val isFirst = own == StateClock.Unknown && first != StateClock.Unknown
      val isLate = raiseTo < access.time && raiseTo > own && chunk.number >= access.below
      if (isFirst || isLate) {
        changed = true
        Bytes.putLong(chunk.array, chunk.valueOffset, if (isLate) raiseTo else first)
        if (chunk.number < column.committedBelow) {
          out.clear()
          out.writeBytes(chunk.array, chunk.valueOffset, chunk.valueLength)
          table.logPut(column, numbered(chunk.number), out)
        }
      }
    }

    /** Returns the access time for the elements that are left. */
    private def newAccess(): ListAccess = {
      val isNewer =
        raiseTo != StateClock.Unknown && raiseTo >= access.time &&
          (raiseTo > access.time || access.below < sequence)
      if (left > 0 && isNewer) ListAccess(raiseTo, sequence) else access
    }

    private def rewriteHead(renewed: ListAccess): Unit = {
      val body = new ListChunk().open(builder.finish().toByteArray)
      builder.begin(othersAlive > 0, renewed)
      if (!body.isEmpty) builder.addAll(body)
      lists.replace(openKey(), builder)
      if (renewed ne access) {
        out.clear()
        out.writeLong(renewed.time)
        out.writeLong(renewed.below)
        table.logPut(column, openKey(), out)
      }
    }
  }

  /** Fails once the list or the key isn't that of the call to `get` any more. */
  private abstract class Guarded extends Iterator[T] {
    private val context = backend.contextVersion
    private val seenChanges = changes

    protected def check(): Unit =
      if (context != backend.contextVersion || seenChanges != changes)
        throw StateErrors.changed("List", descriptor.name)
  }

  private final class Elements extends Guarded {
    private var head = lists.head(openKey())
    private val others = if (head != null && head.isSplit) lists.others(openKey()) else null
    private var current: ListChunk = _
    private var ready = false

    override def hasNext: Boolean = {
      check()
      while (!ready && (current != null || head != null))
        if (current != null && current.next()) ready = true else moveOn()
      ready
    }

    override def next(): T = {
      if (!hasNext) throw StateErrors.ends("list", descriptor.name)
      ready = false
      valueOf(current)
    }

    private def moveOn(): Unit =
      if (others != null && head != null && others.next()) current = others.chunk
      else {
        current = head
        head = null
      }
  }

  private final class Seen(values: mutable.ArrayBuffer[T]) extends Guarded {
    private var at = 0

    override def hasNext: Boolean = {
      check()
      at < values.size
    }

    override def next(): T = {
      if (!hasNext) throw StateErrors.ends("list", descriptor.name)
      at += 1
      values(at - 1)
    }
  }
}

private object RocksDBListState {

  /** The place of the head's first element: behind all chunks. */
  final val InHead = Long.MaxValue

  /** The most elements that a look at their timestamps keeps, so that they need not be read again. */
  final val MostKept: Int = 1 << 14
}
