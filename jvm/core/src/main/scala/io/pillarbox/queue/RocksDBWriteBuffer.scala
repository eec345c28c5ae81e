package io.pillarbox.queue

import java.nio.{ByteBuffer, ByteOrder}
import java.util.Arrays

/**
 * Puts, deletes and deletes of ranges of one column family, in the serialised form of a RocksDB `WriteBatch`.
 *
 * Written in Java, a batch costs one native call instead of one an operation. The format is that of RocksDB's
 * write-ahead log and so does not change (db/write_batch.cc): a sequence number of 8 bytes, which the database
 * sets, a count of 4, little-endian; then for each operation a tag, the column family, the key with its
 * length, for a put also the value with its length. Lengths and ids are varints of 32 bits.
 */
private[queue] final class RocksDBWriteBuffer(columnFamilyId: Int, limitBytes: Int) {
  import RocksDBWriteBuffer._

  private var bytes = new Array[Byte](limitBytes + 256)
  private var end = HeaderBytes
  private var count = 0

  def isEmpty: Boolean = count == 0

  def isFull: Boolean = end >= limitBytes

  def put(keys: Array[Byte], offset: Int, length: Int): Unit = {
    operation(PutTag, keys, offset, length)
    reserve(1)
    varint(0)
  }

  def delete(keys: Array[Byte], offset: Int, length: Int): Unit = operation(DeleteTag, keys, offset, length)

  def deleteRange(from: Array[Byte], until: Array[Byte]): Unit = {
    operation(DeleteRangeTag, from, 0, from.length)
    slice(until, 0, until.length)
  }

  def toByteArray: Array[Byte] = {
    val result = Arrays.copyOf(bytes, end)
    ByteBuffer.wrap(result).order(ByteOrder.LITTLE_ENDIAN).putInt(CountOffset, count)
    result
  }

  def clear(): Unit = {
    end = HeaderBytes
    count = 0
  }

  private def operation(tag: Byte, keys: Array[Byte], offset: Int, length: Int): Unit = {
    reserve(1 + MaxVarint)
    bytes(end) = tag
    end += 1
    varint(columnFamilyId)
    slice(keys, offset, length)
    count += 1
  }

  private def slice(content: Array[Byte], offset: Int, length: Int): Unit = {
    reserve(MaxVarint + length)
    varint(length)
    System.arraycopy(content, offset, bytes, end, length)
    end += length
  }

  private def reserve(more: Int): Unit = {
    val needed = end + more
    if (needed > bytes.length) bytes = Arrays.copyOf(bytes, math.max(needed, bytes.length * 2))
  }

  private def varint(value: Int): Unit = {
    var rest = value
    while ((rest & ~0x7f) != 0) {
      bytes(end) = (rest | 0x80).toByte
      end += 1
      rest >>>= 7
    }
    bytes(end) = rest.toByte
    end += 1
  }
}

private object RocksDBWriteBuffer {
  private final val HeaderBytes = 12
  private final val CountOffset = 8
  private final val DeleteTag: Byte = 0x4
  private final val PutTag: Byte = 0x5

  private final val DeleteRangeTag: Byte = 0xe
  private final val MaxVarint = 5
}
