package io.pillarbox.state.changelog

import java.io.{BufferedInputStream, InputStream}

import io.pillarbox.api.{InputView, StateDescriptor, TimeDomain}
import io.pillarbox.state.StateClock

/**
 * One entry of a state: a value, an accumulator, a list's element or a map's entry. The views are valid until
 * the next entry is asked for, and each holds exactly its part.
 */
private[pillarbox] final class StoredEntry private[changelog] {
  private[changelog] val parts = new KeyParts
  val value = new InputView

  def key: InputView = parts.key

  /** The namespace's bytes; empty for the void one. */
  def namespace: InputView = parts.namespace

  def userKey: InputView = parts.userKey

  /**
   * The time at which it was written or renewed, in milliseconds since 1970; [[StateClock.Unknown]] without
   * TTL, and in event time before the first watermark.
   */
  var timestamp: Long = StateClock.Unknown
}

/** Reads snapshots entry by entry, and their descriptions of states. One thread at a time. */
private[pillarbox] object StateEntries {

  /**
   * Reads the states of a snapshot or log, from its beginning alone.
   *
   * @throws io.pillarbox.state.StateRestoreException if it is damaged or of a newer format
   */
  def states(in: InputStream, source: String): Seq[StateMeta] = {
    var found = Seq.empty[StateMeta]
    new StateStreamReader(in, source).open(header => found = header.states)
    found
  }

  /**
   * Reads all entries of one state, key after key, a list's in their order; expired ones included. At its end
   * it is certain that none is missing.
   *
   * @throws io.pillarbox.state.StateRestoreException from the iterator too, if the snapshot is damaged
   */
  def of(in: InputStream, source: String, state: String): Iterator[StoredEntry] = {
    var meta = Option.empty[StateMeta]
    var firstWatermark = StateClock.Unknown
    val blocks = new StateStreamReader(new BufferedInputStream(in), source).open { header =>
      meta = header.states.find(_.name == state)
      firstWatermark = header.firstWatermark
    }
    meta.fold(Iterator.empty[StoredEntry]) { found =>
      val isEventTime = found.timeDomain.contains(TimeDomain.EVENT_TIME)
      val reader = new EntryReader(found, if (isEventTime) firstWatermark else StateClock.Unknown)
      blocks.filter(_.state == found.id).flatMap { block =>
        val cursor = block.cursor
        Iterator.continually(cursor).takeWhile(_.next()).filter(reader.read).map(_ => reader.entry)
      }
    }
  }
}

/**
 * Takes records apart; remembers the access time of the current list.
 *
 * @param startOfUntimed the start of life for entries without a timestamp
 */
private final class EntryReader(meta: StateMeta, startOfUntimed: Long) {
  val entry = new StoredEntry
  private var list = Array.emptyByteArray
  private var readAt = StateClock.Unknown
  private var readBelow = Long.MinValue

  /** True if the record is an entry, which `entry` shows then. */
  def read(cursor: RecordCursor): Boolean = {
    entry.parts.open(cursor.array, cursor.keyOffset, cursor.keyLength)
    entry.value.wrap(cursor.array, cursor.valueOffset, cursor.valueLength)
    if (meta.kind == StateDescriptor.Kind.LIST) readElement(cursor, entry.parts.prefixLength)
    else {
      entry.timestamp = ownTimestamp()
      true
    }
  }

  private def ownTimestamp(): Long = {
    val written = if (meta.hasTimestamps) entry.value.readLong() else StateClock.Unknown
    if (written == StateClock.Unknown) startOfUntimed else written
  }

  /** The record without a number comes before those of the elements, and holds the access time. */
  private def readElement(cursor: RecordCursor, prefix: Int): Boolean =
    if (cursor.keyLength == prefix) {
      list = java.util.Arrays.copyOfRange(cursor.array, cursor.keyOffset, cursor.keyOffset + prefix)
      readAt = entry.value.readLong()
      readBelow = entry.value.readLong()
      false
    } else {
      val own = ownTimestamp()
      val number = new InputView().wrap(cursor.array, cursor.keyOffset + prefix, 8).readLong()
      val isRenewed = number < readBelow && isSameList(cursor, prefix)
      entry.timestamp = if (isRenewed) math.max(own, readAt) else own
      true
    }

  private def isSameList(cursor: RecordCursor, prefix: Int): Boolean = {
    val from = cursor.keyOffset
    java.util.Arrays.equals(list, 0, list.length, cursor.array, from, from + prefix)
  }
}
