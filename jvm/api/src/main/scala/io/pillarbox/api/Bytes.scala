package io.pillarbox.api

import java.lang.invoke.{MethodHandles, VarHandle}
import java.nio.ByteOrder

/** Big-endian access to byte arrays, and a hash of them. */
private[pillarbox] object Bytes {
  private val longs: VarHandle =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Long]], ByteOrder.BIG_ENDIAN)
  private val ints: VarHandle =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Int]], ByteOrder.BIG_ENDIAN)

  def getLong(bytes: Array[Byte], at: Int): Long = (longs.get(bytes, at): Long)

  def putLong(bytes: Array[Byte], at: Int, value: Long): Unit = longs.set(bytes, at, value)

  def getInt(bytes: Array[Byte], at: Int): Int = (ints.get(bytes, at): Int)

  def putInt(bytes: Array[Byte], at: Int, value: Int): Unit = ints.set(bytes, at, value)

  /** MurmurHash3, 32 bits (Austin Appleby, public domain), over big-endian words, seed 42. Never changes. */
  def hash(bytes: Array[Byte], offset: Int, length: Int): Int = {
    var h = 42
    val end = offset + (length & ~3)
    var i = offset
    while (i < end) {
      h = mix(h, getInt(bytes, i))
      h = Integer.rotateLeft(h, 13) * 5 + 0xe6546b64
      i += 4
    }
    finish(tail(h, bytes, i, offset + length) ^ length)
  }

  private def tail(hash: Int, bytes: Array[Byte], from: Int, end: Int): Int = {
    var word = 0
    var i = from
    while (i < end) {
      word = (word << 8) | (bytes(i) & 0xff)
      i += 1
    }
    if (end > from) mix(hash, word) else hash
  }

  private def mix(hash: Int, word: Int): Int =
    hash ^ (Integer.rotateLeft(word * 0xcc9e2d51, 15) * 0x1b873593)

  private def finish(hash: Int): Int = {
    var h = (hash ^ (hash >>> 16)) * 0x85ebca6b
    h = (h ^ (h >>> 13)) * 0xc2b2ae35
    h ^ (h >>> 16)
  }
}
