package io.pillarbox.state.rocksdb.list

import java.util

import io.pillarbox.api.{Bytes, InputView, OutputView}
import io.pillarbox.state.rocksdb.entries.{EntryScan, EntryStore, StateColumn}

/**
 * The lists of a state as chunks: reading a short list is one lookup, and no write touches more than a chunk
 * however long the list is.
 *
 * The newest elements lie under key and namespace alone, the head; as soon as they are enough for a chunk
 * they move to a separate entry, named by the number of its first element, for good. A list has a head as
 * long as it has anything.
 *
 * An element for a list that is not in the cache goes behind the head without a look at it, by RocksDB's
 * merge; a sample of such writes looks, and then moves a head that has become long as a whole.
 *
 * Keys are passed as views that end with the namespace, and are left so. The caller writes single elements to
 * commits.
 */
private[rocksdb] final class PackedLists(table: EntryStore, column: StateColumn) {
  private val builder = new ListChunkBuilder
  private val chunk = new ListChunk
  private val element = new OutputView(256)

  /** Copies the list's head; null if there is no list. */
  def head(key: OutputView): ListChunk =
    if (table.get(column, key)) new ListChunk().open(PackedLists.copyOf(table.value)) else null

  /** Adds an element with a greater number than any other; mostly without a look at the database. */
  def append(key: OutputView, number: Long, value: Array[Byte], offset: Int, length: Int): Unit = {
    val state = table.look(column, key, length)
    if (state == EntryStore.Missing)
      putHead(key, isSplit = false, ListAccess.Never, number, value, offset, length)
    else if (state == EntryStore.Present) appendSeen(key, number, value, offset, length)
    else {
      element.clear()
      builder.writeUnseen(element, number, value, offset, length)
      table.appendUnseen(column, key, element)
      element.shrinkTo(OutputView.IdleBytes)
    }
  }

  private def appendSeen(
      key: OutputView,
      number: Long,
      value: Array[Byte],
      offset: Int,
      length: Int
  ): Unit = {
    chunk.open(table.value.array, table.value.position, table.value.remaining)
    if (chunk.isEmpty) putHead(key, chunk.isSplit, chunk.access, number, value, offset, length)
    else if (chunk.bodyLength >= table.listChunkBytes) {
      val access = chunk.access
      moveAside(key)
      putHead(key, isSplit = true, access, number, value, offset, length)
    } else {
      element.clear()
      builder.writeElement(element, number, chunk.base, value, offset, length)
      table.append(column, element)
      element.shrinkTo(OutputView.IdleBytes)
    }
  }

  /** Walks over the chunks beside the head, the oldest first; the result's `chunk` changes each step. */
  def others(key: OutputView): OtherChunks = new OtherChunks(
    table.scan(column, key.toByteArray, PackedLists.PageSize),
    key.length
  )

  /** The same from the chunk of this number on. */
  def others(key: OutputView, number: Long): OtherChunks = {
    val (prefix, length) = (key.toByteArray, key.length)
    key.writeLong(number)
    val scan = table.scan(column, prefix, PackedLists.PageSize, key.toByteArray)
    key.truncate(length)
    new OtherChunks(scan, length)
  }

  /** Makes these elements the chunk under `key`, which may have a number at its end. */
  def replace(key: OutputView, content: ListChunkBuilder): Unit = table.put(column, key, content.finish())

  def remove(key: OutputView): Unit = table.delete(column, key)

  private def putHead(
      key: OutputView,
      isSplit: Boolean,
      access: ListAccess,
      number: Long,
      value: Array[Byte],
      offset: Int,
      length: Int
  ): Unit = {
    builder.begin(isSplit, access)
    builder.add(number, value, offset, length)
    replace(key, builder)
  }

  /** Moves the elements of the open head to a separate entry. */
  private def moveAside(key: OutputView): Unit = {
    val prefix = key.length
    key.writeLong(chunk.first)
    builder.begin(isSplit = false, ListAccess.Never)
    builder.addAll(chunk)
    replace(key, builder)
    key.truncate(prefix)
  }
}

private[rocksdb] object PackedLists {

  /** The most chunks in a page. */
  private final val PageSize = 32

  private def copyOf(view: InputView): Array[Byte] =
    util.Arrays.copyOfRange(view.array, view.position, view.position + view.remaining)
}

/** Walks over the chunks of one list without its head. */
private[rocksdb] final class OtherChunks(scan: EntryScan, prefixLength: Int) {
  val chunk = new ListChunk

  /** The key of the chunk that [[next]] has found. */
  def key: Array[Byte] = scan.key

  /** The number in that key. */
  def number: Long = Bytes.getLong(scan.key, prefixLength)

  def next(): Boolean = {
    var found = scan.next()
    if (found && scan.key.length == prefixLength) found = scan.next()
    if (found) chunk.open(scan.value)
    found
  }
}
