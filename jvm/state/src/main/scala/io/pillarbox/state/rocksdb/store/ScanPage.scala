package io.pillarbox.state.rocksdb.store

import java.util

import org.rocksdb.{ReadOptions, RocksIterator, Slice}

/** Some entries of a scan, in order. */
private[pillarbox] final class ScanPage(capacity: Int) {
  private var content = new Array[Array[Byte]](capacity * 2)

  var size = 0
  var bytes = 0L

  /** True if nothing comes after them. */
  var isLast = false

  def key(i: Int): Array[Byte] = content(2 * i)

  def value(i: Int): Array[Byte] = content(2 * i + 1)

  private[rocksdb] def add(key: Array[Byte], value: Array[Byte]): Unit = {
    if (2 * size == content.length) content = util.Arrays.copyOf(content, math.max(16, content.length * 2))
    content(2 * size) = key
    content(2 * size + 1) = value
    size += 1
    bytes += key.length + value.length
  }
}

/**
 * Walks over entries as they were when it was made, and stands before the first one then. Holds native memory
 * until it is closed.
 *
 * @param check throws the iterator's error: after an error the iterator looks as if it were at its end
 */
private[pillarbox] final class StoreCursor(
    iterator: RocksIterator,
    options: ReadOptions,
    bound: Slice,
    check: () => Unit
) extends AutoCloseable {
  private var isBefore = true
  private var isOn = false

  /** Moves to the next entry; false at the end, for ever after. */
  def advance(): Boolean = {
    if (isOn) iterator.next()
    if (isOn || isBefore) {
      isBefore = false
      isOn = iterator.isValid
      if (!isOn) check()
    }
    isOn
  }

  /** A copy of the entry's key. */
  def key: Array[Byte] = iterator.key

  def value: Array[Byte] = iterator.value

  override def close(): Unit = {
    isBefore = false
    isOn = false
    iterator.close()
    options.close()
    if (bound != null) bound.close()
  }
}
