package io.pillarbox.state.changelog

import java.io.{EOFException, InputStream}
import java.util
import java.util.zip.CRC32C

import io.pillarbox.api.{InputView, OutputView, TypeSerializer}
import io.pillarbox.state.changelog.StateStreamFormat._
import io.pillarbox.state.{StateException, StateRestoreException}

/**
 * Reads a snapshot or log. Every block is checked before anything of it is handed out.
 *
 * @param source names the file in errors
 */
private[pillarbox] final class StateStreamReader(in: InputStream, source: String) {
  private val checksum = new CRC32C
  private val view = new InputView
  private var entries = 0L
  private var blocks = 0

  /**
   * Reads the header, hands it to `onHeader`, then every block of records to `onBlock`.
   *
   * @throws StateRestoreException if the stream is damaged, cut off or of another version
   */
  def read(onHeader: StreamHeader => Unit)(onBlock: RecordBlock => Unit): Unit =
    checked(open(onHeader).foreach(onBlock))

  /** Does the same block by block: reads the header at once, and a block whenever one is asked for. */
  def open(onHeader: StreamHeader => Unit): Iterator[RecordBlock] = {
    checked {
      readPrelude()
      onHeader(readHeader())
    }
    Iterator.continually(checked(nextBlock())).takeWhile(_ != null)
  }

  private def checked[T](reading: => T): T =
    try reading
    catch {
      case e: StateException => throw e
      case e: EOFException => throw corrupt(source, s"it ends too early (${e.getMessage})", e)
      case e @ (_: IndexOutOfBoundsException | _: IllegalArgumentException) =>
        throw corrupt(source, s"it has a malformed block (${e.getMessage})", e)
    }

  private def readPrelude(): Unit = {
    val prelude = readFully(Magic.length + 4)
    if (!util.Arrays.equals(Magic, util.Arrays.copyOf(prelude, Magic.length)))
      throw corrupt(source, "it doesn't begin as a Pillarbox state file does")
    val version = new InputView(prelude.drop(Magic.length)).readInt()
    if (version != Version) throw StateRestoreException.otherFormat(source, version, Version)
  }

  private def readHeader(): StreamHeader = {
    val block = readBlock()
    view.wrap(block, 0, block.length)
    if (view.readByte() != Header) throw corrupt(source, "its header is missing")
    StreamHeader.readFrom(view)
  }

  /** Reads the next block; null after the last one, whose counts are compared. */
  private def nextBlock(): RecordBlock = {
    val block = readBlock()
    if (block(0) == Records) {
      val records = recordBlock(block)
      entries += records.count
      blocks += 1
      records
    } else {
      checkEnd(block)
      null
    }
  }

  private def checkEnd(block: Array[Byte]): Unit = {
    view.wrap(block, 0, block.length)
    if (view.readByte() != End || view.readLong() != entries || view.readInt() != blocks)
      throw corrupt(source, s"its end doesn't fit the $blocks blocks and $entries entries before it")
    if (in.read() != -1) throw corrupt(source, "there are bytes behind its end")
  }

  private def recordBlock(block: Array[Byte]): RecordBlock = {
    view.wrap(block, 1, block.length - 1)
    val (state, count) = (view.readVarInt(), view.readVarInt())
    new RecordBlock(state, count, block, view.position)
  }

  private def readBlock(): Array[Byte] = {
    val frame = readFully(8)
    view.wrap(frame, 0, 8)
    val (length, expected) = (view.readInt(), view.readInt())
    if (length <= 0) throw corrupt(source, s"it has a block of $length bytes")
    val content = readFully(length)
    checksum.reset()
    checksum.update(frame, 0, 4)
    checksum.update(content, 0, length)
    if (checksum.getValue.toInt != expected) throw corrupt(source, "the checksum of a block is wrong")
    content
  }

  /** Grows as bytes arrive, so that a damaged length costs no memory. */
  private def readFully(length: Int): Array[Byte] = {
    val content = in.readNBytes(length)
    if (content.length < length) throw new EOFException(s"$length bytes wanted, ${content.length} found")
    content
  }
}

/** Checked records of one state. Immutable; any number of cursors may read it. */
private[pillarbox] final class RecordBlock(
    val state: Int,
    val count: Int,
    content: Array[Byte],
    from: Int
) {
  def cursor: RecordCursor = new RecordCursor(content, from, count)
}

/** Walks through the records of a block: after a [[next]] that is true, the fields describe one. */
private[pillarbox] final class RecordCursor(content: Array[Byte], from: Int, count: Int) {
  private val in = new InputView().wrap(content, from, content.length - from)
  private var left = count

  /** Keys and values are regions of this array. */
  def array: Array[Byte] = content

  var isPut = false
  var keyOffset = 0
  var keyLength = 0
  var valueOffset = 0
  var valueLength = 0

  def next(): Boolean = left > 0 && {
    left -= 1
    isPut = in.readByte() != 0
    keyLength = in.readVarInt()
    keyOffset = in.position
    in.skip(keyLength)
    valueLength = if (isPut) in.readVarInt() else 0
    valueOffset = in.position
    in.skip(valueLength)
    true
  }
}

/** The layout of keys in streams and in RocksDB, see [[StateStreamFormat]]. */
private[state] object CompositeKey {

  /** Writes everything before the user key. */
  def writePrefix[K](
      out: OutputView,
      key: K,
      serializer: TypeSerializer[K],
      namespace: Array[Byte]
  ): Unit = {
    val region = out.beginSized()
    serializer.serialize(key, out)
    out.endSized(region)
    out.writeVarInt(namespace.length)
    if (namespace.length > 0) out.writeBytes(namespace)
  }
}

/** Takes a composite key apart. Reusable; the views are on the bytes given last, each on exactly its part. */
private[state] final class KeyParts {
  private val whole = new InputView
  val key = new InputView
  val namespace = new InputView
  val userKey = new InputView

  /** The number of bytes of key and namespace. */
  var prefixLength = 0

  def open(bytes: Array[Byte], offset: Int, keyLength: Int): this.type = {
    whole.wrap(bytes, offset, keyLength)
    openNext(key)
    openNext(namespace)
    prefixLength = whole.position - offset
    userKey.wrap(bytes, whole.position, whole.remaining)
    this
  }

  private def openNext(part: InputView): Unit = {
    val length = whole.readVarInt()
    part.wrap(whole.array, whole.position, length)
    whole.skip(length)
  }
}
