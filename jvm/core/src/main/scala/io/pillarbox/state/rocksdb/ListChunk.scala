package io.pillarbox.state.rocksdb

import io.pillarbox.state.serialization.{InputView, OutputView}

/** When a list was read last under OnReadAndWrite, and which elements were there: those with a number below `below`. */
private[rocksdb] final case class ListAccess(time: Long, below: Long) {
  def timestamp(number: Long, own: Long): Long = if (number < below) math.max(own, time) else own
}

private[rocksdb] object ListAccess {
  val Never: ListAccess = ListAccess(io.pillarbox.state.StateClock.Unknown, Long.MinValue)
}

/**
 * Reads elements that lie together in one RocksDB value, in the order of their numbers.
 *
 * {{{
 * chunk   = flags:byte [access time:long, below:long] first:long element*
 * element = (number - first):varint sized(value)
 * flags   = 1: there are other chunks | 2: with access time
 * }}}
 *
 * A value is what a log has of the element: its timestamp if the state has TTL, then its bytes.
 */
private[rocksdb] final class ListChunk {
  private[this] val in = new InputView
  private[this] var end = 0

  /** Of a list's newest chunk: whether older ones lie beside it. */
  var isSplit = false
  var access: ListAccess = ListAccess.Never

  /** The number of the first element. */
  var first = 0L
  var bodyOffset = 0

  /** The element that [[next]] found. */
  var number = 0L
  var valueOffset = 0
  var valueLength = 0

  def open(bytes: Array[Byte], offset: Int, length: Int): this.type = {
    in.wrap(bytes, offset, length)
    end = offset + length
    val flags = in.readByte()
    isSplit = (flags & ListChunk.Split) != 0
    access =
      if ((flags & ListChunk.Access) != 0) ListAccess(in.readLong(), in.readLong()) else ListAccess.Never
    first = in.readLong()
    bodyOffset = in.position
    this
  }

  def open(bytes: Array[Byte]): this.type = open(bytes, 0, bytes.length)

  def array: Array[Byte] = in.array

  /** Of all elements, in bytes. */
  def bodyLength: Int = end - bodyOffset

  def isEmpty: Boolean = bodyLength == 0

  /** Moves to the next element; false at the end. */
  def next(): Boolean = in.remaining > 0 && {
    number = first + in.readVarInt()
    valueLength = in.readVarInt()
    valueOffset = in.position
    in.skip(valueLength)
    true
  }

  /** Reads from the first element again. */
  def rewind(): Unit = in.wrap(in.array, bodyOffset, bodyLength): Unit

  /** How many elements there are, read or not. */
  def count(): Int = {
    rewind()
    var count = 0
    while (next()) count += 1
    rewind()
    count
  }
}

private[rocksdb] object ListChunk {
  final val Split = 1
  final val Access = 2
}

/** Writes what [[ListChunk]] reads. */
private[rocksdb] final class ListChunkBuilder {
  private[this] var first = 0L
  var count = 0

  /** The chunk, once [[finish]] was called. */
  val out = new OutputView(256)

  def begin(isSplit: Boolean, access: ListAccess): this.type = {
    val hasAccess = access ne ListAccess.Never
    out.clear()
    out.shrinkTo(1 << 20)
    out.writeByte((if (isSplit) ListChunk.Split else 0) | (if (hasAccess) ListChunk.Access else 0))
    if (hasAccess) {
      out.writeLong(access.time)
      out.writeLong(access.below)
    }
    count = 0
    this
  }

  /** Elements come in the order of their numbers. */
  def add(number: Long, value: Array[Byte], offset: Int, length: Int): Unit = {
    if (count == 0) {
      first = number
      out.writeLong(number)
    }
    count += 1
    writeElement(out, number - first, value, offset, length)
  }

  /** All elements of a chunk. */
  def addAll(chunk: ListChunk): Unit = {
    out.writeLong(chunk.first)
    out.writeBytes(chunk.array, chunk.bodyOffset, chunk.bodyLength)
    count += 1
  }

  def finish(): OutputView = {
    if (count == 0) out.writeLong(0L)
    out
  }

  def writeElement(to: OutputView, step: Long, value: Array[Byte], offset: Int, length: Int): Unit = {
    to.writeVarInt(step.toInt)
    to.writeVarInt(length)
    to.writeBytes(value, offset, length)
  }
}
