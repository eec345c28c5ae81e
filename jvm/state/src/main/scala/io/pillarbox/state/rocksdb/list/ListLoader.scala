package io.pillarbox.state.rocksdb.list

import java.util

import io.pillarbox.api.{Bytes, InputView, OutputView}
import io.pillarbox.state.changelog.{KeyParts, RecordCursor}
import io.pillarbox.state.rocksdb.entries.{EntryStore, StateColumn}

/**
 * Puts a list's elements from a snapshot or log into chunks. Elements usually come in order and are appended;
 * one that a log removes, or writes again, is looked for among the chunks.
 */
private[rocksdb] final class ListLoader(table: EntryStore, column: StateColumn) {
  private val lists = new PackedLists(table, column)
  column.isLogged = false
  private val builder = new ListChunkBuilder
  private val key = new OutputView(128)
  private val parts = new KeyParts
  private val view = new InputView

  /** The key of the last found chunk, for neighbours of the last element, and the first number behind it. */
  private var found: Array[Byte] = _
  private var foundEnd = 0L

  def load(record: RecordCursor): Unit = {
    parts.open(record.array, record.keyOffset, record.keyLength)
    key.clear()
    key.writeBytes(record.array, record.keyOffset, parts.prefixLength)
    if (parts.userKey.remaining == 0) loadAccess(record)
    else {
      val number = parts.userKey.readLong()
      val head = lists.head(key)
      if (head == null || isLast(head, number)) { if (record.isPut) append(number, record) }
      else if (!head.isEmpty && number >= head.first) edit(head, null, number, record)
      else editOther(head, number, record)
    }
  }

  private def loadAccess(record: RecordCursor): Unit = {
    val head = lists.head(key)
    if (record.isPut || head != null) {
      view.wrap(record.array, record.valueOffset, record.valueLength)
      val access = if (record.isPut) ListAccess(view.readLong(), view.readLong()) else ListAccess.Never
      putHead(head, access, head != null && head.isSplit)
    }
  }

  private def isLast(head: ListChunk, number: Long): Boolean =
    if (head.isEmpty) !head.isSplit || lastBesides() < number
    else {
      var last = head.first
      while (head.next()) last = head.number
      head.rewind()
      last < number
    }

  private def lastBesides(): Long = {
    var last = Long.MinValue
    val others = lists.others(key)
    while (others.next()) while (others.chunk.next()) last = others.chunk.number
    last
  }

  private def append(number: Long, record: RecordCursor): Unit = {
    found = null
    lists.append(key, number, record.array, record.valueOffset, record.valueLength)
  }

  private def editOther(head: ListChunk, number: Long, record: RecordCursor): Unit = {
    if (head.isSplit && !isFound(number)) find(head, number)
    if (head.isSplit && found != null) {
      val prefix = key.length
      key.writeBytes(found, prefix, found.length - prefix)
      val chunk = lists.head(key)
      key.truncate(prefix)
      edit(chunk, found, number, record)
    } else edit(head, null, number, record)
  }

  private def isFound(number: Long): Boolean = found != null &&
    found.length == key.length + java.lang.Long.BYTES &&
    util.Arrays.equals(found, 0, key.length, key.array, 0, key.length) &&
    Bytes.getLong(found, key.length) <= number && number < foundEnd

  /** Finds the last chunk that begins at or before the number, or the first of all. */
  private def find(head: ListChunk, number: Long): Unit = {
    found = null
    foundEnd = if (head.isEmpty) Long.MaxValue else head.first
    val others = lists.others(key)
    var searching = others.next()
    while (searching) {
      if (found == null || others.chunk.first <= number) {
        found = others.key
        searching = others.next()
      } else {
        foundEnd = others.chunk.first
        searching = false
      }
    }
  }

  /** Writes the chunk again with the record's element in place of that with its number. */
  private def edit(chunk: ListChunk, at: Array[Byte], number: Long, record: RecordCursor): Unit = {
    builder.begin(chunk.isSplit, chunk.access)
    var waits = record.isPut
    while (chunk.next()) {
      if (waits && chunk.number >= number) {
        builder.add(number, record.array, record.valueOffset, record.valueLength)
        waits = false
      }
      if (chunk.number != number) builder.add(chunk.number, chunk.array, chunk.valueOffset, chunk.valueLength)
    }
    if (waits) builder.add(number, record.array, record.valueOffset, record.valueLength)
    if (at == null) settleHead(chunk) else settleOther(at)
  }

  private def settleHead(head: ListChunk): Unit =
    if (builder.count == 0 && !head.isSplit && (head.access eq ListAccess.Never)) lists.remove(key)
    else lists.replace(key, builder)

  private def settleOther(at: Array[Byte]): Unit = {
    val prefix = key.length
    key.writeBytes(at, prefix, at.length - prefix)
    if (builder.count > 0) lists.replace(key, builder) else lists.remove(key)
    key.truncate(prefix)
    if (builder.count == 0) {
      found = null
      if (!lists.others(key).next()) {
        val head = lists.head(key)
        putHead(head, head.access, isSplit = false)
      }
    }
  }

  /** Writes the head again with the same elements. */
  private def putHead(head: ListChunk, access: ListAccess, isSplit: Boolean): Unit = {
    builder.begin(isSplit, access)
    if (head != null && !head.isEmpty) builder.addAll(head)
    if (builder.count == 0 && !isSplit && (access eq ListAccess.Never)) lists.remove(key)
    else lists.replace(key, builder)
  }
}
