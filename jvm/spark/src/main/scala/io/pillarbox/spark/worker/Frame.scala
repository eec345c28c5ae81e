package io.pillarbox.spark.worker

import java.io.EOFException
import java.nio.channels.SocketChannel
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.{ByteBuffer, ByteOrder}

/** One message between the JVM and the worker: a type and a body. Every integer is little-endian. */
private[pillarbox] final class Frame(val kind: Byte, val body: ByteBuffer) {

  /** Reads a length-prefixed text at the body's position. */
  def readText(): String = new String(readBytes(), UTF_8)

  /** Reads length-prefixed bytes at the body's position. */
  def readBytes(): Array[Byte] = {
    val bytes = new Array[Byte](body.getInt)
    body.get(bytes)
    bytes
  }
}

private[pillarbox] object Frame {
  // JVM to Python
  val Init: Byte = 'I'
  val Calls: Byte = 'C'
  val Group: Byte = 'G'
  val Cancel: Byte = 'X'
  val GiveUp: Byte = 'U'
  val Collect: Byte = 'K'
  // Python to JVM
  val Ready: Byte = 'O'
  val Results: Byte = 'R'
  val Failures: Byte = 'F'
  val Tickets: Byte = 'Q'
  val Usage: Byte = 'S'
  val Told: Byte = 'L'
  val Note: Byte = 'N'
  val Fatal: Byte = 'T'
  // Both ways

  /** Content that precedes that of the next frame, which would get too large with it. */
  val Part: Byte = 'P'
  val End: Byte = 'E'

  /** The bytes before the body: a length (of kind and body) and the kind. */
  private val HeaderBytes = 5

  def buffer(bytes: Int): ByteBuffer = ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN)

  /** Writes a whole frame; blocks while the peer does not read. One thread at a time. */
  def write(channel: SocketChannel, kind: Byte, parts: ByteBuffer*): Unit = {
    val header = buffer(HeaderBytes)
    header.putInt(Math.toIntExact(1 + parts.map(_.remaining.toLong).sum)).put(kind).flip()
    val all = (header +: parts).toArray
    while (all(all.length - 1).hasRemaining || all.exists(_.hasRemaining)) channel.write(all)
  }
}

/** Reads frames from a blocking channel. Single-threaded; a frame's body is valid until the next `read`. */
private[pillarbox] final class FrameReader(channel: SocketChannel) {
  private var storage = Frame.buffer(1 << 16).limit(0)

  /**
   * Returns the next frame. Blocks.
   *
   * @throws EOFException if the peer closed the channel
   */
  def read(): Frame = {
    if (storage.capacity > FrameReader.KeptBytes && !storage.hasRemaining)
      storage = Frame.buffer(1 << 16).limit(0)
    require(5)
    val length = storage.getInt
    if (length < 1)
      throw new IllegalStateException(s"A frame of ${Integer.toUnsignedLong(length)} bytes can't be read")
    val kind = storage.get()
    require(length - 1)
    val body = storage.slice(storage.position(), length - 1).order(ByteOrder.LITTLE_ENDIAN)
    storage.position(storage.position() + length - 1)
    new Frame(kind, body)
  }

  /** True if more has come than the frames that were read. */
  def hasUnread: Boolean = storage.hasRemaining

  /** Makes `bytes` bytes available from the position on. */
  private def require(bytes: Int): Unit =
    if (storage.remaining < bytes) {
      if (storage.capacity - storage.position() < bytes) makeRoom(bytes)
      val end = storage.position() + bytes
      val start = storage.position()
      storage.position(storage.limit())
      while (storage.position() < end) {
        val room = math.min(storage.capacity - storage.position(), FrameReader.ReadBytes)
        storage.limit(storage.position() + room)
        if (channel.read(storage) < 0) throw new EOFException("The Python worker closed the channel")
      }
      storage.limit(storage.position()).position(start)
    }

  private def makeRoom(bytes: Int): Unit =
    if (storage.capacity >= bytes) storage.compact().flip()
    else {
      val larger = Frame.buffer(FrameReader.capacityFor(bytes))
      storage = larger.put(storage).flip()
    }
}

private[worker] object FrameReader {

  /** Bytes of one read: the JDK takes as much memory off the heap, and keeps it for the thread. */
  private val ReadBytes = 1 << 20

  /** A buffer above this size, which a larger frame needed, is freed after that frame. */
  private val KeptBytes = 128 << 20

  /** The longest array of this JVM. */
  private val Longest = Int.MaxValue - 8

  /** Returns the next power of two, or the longest length there may be. */
  def capacityFor(bytes: Int): Int =
    math.max(bytes.toLong, math.min(Integer.highestOneBit(bytes - 1) * 2L, Longest.toLong)).toInt
}
