package io.pillarbox.state.changelog

import java.util

import io.pillarbox.api.TypeSerializer

/**
 * Chooses records by their keys. Records of one key usually come one after the other, and are judged once.
 *
 * @param isKept true for the keys whose records are taken
 */
private[state] final class RecordKeys[K] private (serializer: TypeSerializer[K], isKept: K => Boolean) {
  private val parts = new KeyParts
  private var last = Array.emptyByteArray
  private var lastLength = -1
  private var wasKept = false

  /** True if the record that the cursor is at is taken. */
  def keeps(cursor: RecordCursor): Boolean = keeps(cursor.array, cursor.keyOffset, cursor.keyLength)

  /** True if the record with this composite key is taken. */
  def keeps(bytes: Array[Byte], offset: Int, keyLength: Int): Boolean = {
    val key = parts.open(bytes, offset, keyLength).key
    val (from, length) = (key.position, key.remaining)
    if (!isLast(key.array, from, length)) {
      if (last.length < length) last = new Array[Byte](length * 2)
      System.arraycopy(key.array, from, last, 0, length)
      lastLength = length
      wasKept = isKept(serializer.deserialize(key))
    }
    wasKept
  }

  private def isLast(array: Array[Byte], from: Int, length: Int): Boolean =
    length == lastLength && util.Arrays.equals(array, from, from + length, last, 0, length)
}

private[state] object RecordKeys {

  /** Returns null, which takes all records, without `isKept`. */
  def of[K](serializer: TypeSerializer[K], isKept: K => Boolean): RecordKeys[K] =
    if (isKept == null) null else new RecordKeys(serializer, isKept)
}
