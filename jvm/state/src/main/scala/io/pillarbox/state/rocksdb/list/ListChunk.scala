package io.pillarbox.state.rocksdb.list

import io.pillarbox.api.{InputView, OutputView}

/**
 * The time of a list's last read under ON_READ_AND_WRITE, and the elements that were there: those with a
 * number below `below`.
 */
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
 * chunk   = [head] element*
 * head    = flags:byte [access time:long, below:long] base:long
 * element = number sized(value)
 * number  = (number - base + 1):varint | 0 number:long
 * flags   = 1: there are other chunks | 2: with access time | 128: always
 * }}}
 *
 * Elements with numbers that need no base can be added behind a chunk that was not looked at, and without one
 * they are a chunk without head, whose base is the number of the first. An element that a retried write added
 * twice counts once.
 *
 * A value is that of the element in a log: its timestamp if the state has TTL, then its bytes.
 */
private[rocksdb] final class ListChunk {
  private val in = new InputView
  private var end = 0

  /** True in a list's newest chunk if older ones lie beside it. */
  var isSplit = false
  var access: ListAccess = ListAccess.Never

  /** The number of the first element. */
  var first = 0L
  var base = 0L
  var bodyOffset = 0

  /** The element that [[next]] has found. */
  var number = 0L
  var valueOffset = 0
  var valueLength = 0

  def open(bytes: Array[Byte], offset: Int, length: Int): this.type = {
    in.wrap(bytes, offset, length)
    end = offset + length
    // A chunk without head begins as an element without base does.
    val flags = if (length > 0 && bytes(offset) != ListChunk.NoBase) in.readByte() else 0
    isSplit = (flags & ListChunk.Split) != 0
    access =
      if ((flags & ListChunk.Access) != 0) ListAccess(in.readLong(), in.readLong()) else ListAccess.Never
    if (flags != 0) base = in.readLong()
    bodyOffset = in.position
    if (in.remaining > 0) first = readNumber() else first = base
    if (flags == 0) base = first
    rewind()
    this
  }

  def open(bytes: Array[Byte]): this.type = open(bytes, 0, bytes.length)

  def array: Array[Byte] = in.array

  /** The length of all elements, in bytes. */
  def bodyLength: Int = end - bodyOffset

  def isEmpty: Boolean = bodyLength == 0

  /** Moves to the next element; false at the end. */
  def next(): Boolean = {
    val last = number
    var found = step()
    while (found && number <= last) found = step()
    found
  }

  private def step(): Boolean = in.remaining > 0 && {
    number = readNumber()
    valueLength = in.readVarInt()
    valueOffset = in.position
    in.skip(valueLength)
    true
  }

  private def readNumber(): Long = {
    val step = in.readVarInt()
    if (step == ListChunk.NoBase) in.readLong() else base + step - 1
  }

  /** The number of elements from here to the end, where it is then. */
  def countRest(): Int = {
    var count = 0
    while (next()) count += 1
    count
  }

  /** Reads from the first element again. */
  def rewind(): Unit = {
    in.wrap(in.array, bodyOffset, bodyLength)
    number = Long.MinValue
  }

}

private[rocksdb] object ListChunk {
  final val Split = 1
  final val Access = 2
  final val Head = 128

  /** Stands before a number that is written in full. */
  final val NoBase = 0
}

/** Writes what [[ListChunk]] reads. */
private[rocksdb] final class ListChunkBuilder {
  private var base = 0L
  var count = 0

  /** The chunk, once [[finish]] was called. */
  val out = new OutputView(256)

  def begin(isSplit: Boolean, access: ListAccess): this.type = {
    val hasAccess = access ne ListAccess.Never
    out.clear()
    out.shrinkTo(1 << 20)
    out.writeByte(
      ListChunk.Head | (if (isSplit) ListChunk.Split else 0) | (if (hasAccess) ListChunk.Access else 0)
    )
    if (hasAccess) {
      out.writeLong(access.time)
      out.writeLong(access.below)
    }
    count = 0
    this
  }

  /** Adds an element; they come in the order of their numbers. */
  def add(number: Long, value: Array[Byte], offset: Int, length: Int): Unit = {
    if (count == 0) {
      base = number
      out.writeLong(number)
    }
    count += 1
    writeElement(out, number, base, value, offset, length)
  }

  def addAll(chunk: ListChunk): Unit = {
    out.writeLong(chunk.base)
    out.writeBytes(chunk.array, chunk.bodyOffset, chunk.bodyLength)
    count += 1
  }

  def finish(): OutputView = {
    if (count == 0) out.writeLong(0L)
    out
  }

  def writeElement(
      to: OutputView,
      number: Long,
      base: Long,
      value: Array[Byte],
      offset: Int,
      length: Int
  ): Unit =
    if (number - base >= Int.MaxValue) writeUnseen(to, number, value, offset, length)
    else {
      to.writeVarInt((number - base).toInt + 1)
      to.writeVarInt(length)
      to.writeBytes(value, offset, length)
    }

  /** Writes an element for a chunk whose base is not known. */
  def writeUnseen(to: OutputView, number: Long, value: Array[Byte], offset: Int, length: Int): Unit = {
    to.writeByte(ListChunk.NoBase)
    to.writeLong(number)
    to.writeVarInt(length)
    to.writeBytes(value, offset, length)
  }
}
