package io.pillarbox.state.heap

import java.nio.ByteBuffer
import java.util

import scala.collection.mutable

import io.pillarbox.api.{InputView, TypeSerializer}
import io.pillarbox.state.Namespace
import io.pillarbox.state.changelog._

/**
 * Restored records of a state that the program hasn't registered yet. They are decoded once its descriptor is
 * known, and written to snapshots as they are until then, so state that one run doesn't use isn't lost.
 */
private[heap] final class RawState[K](keySerializer: TypeSerializer[K]) {
  private val blocks = mutable.ArrayBuffer.empty[(StateMeta, RecordBlock, RecordKeys[K])]

  /** The description by the last stream; it holds for every entry, since a change of type rewrites all. */
  var meta: StateMeta = _

  /** @param keeps true for the keys whose records count; null for all */
  def add(written: StateMeta, block: RecordBlock, keeps: K => Boolean): Unit =
    blocks += ((written, block, RecordKeys.of(keySerializer, keeps)))

  /** Goes through all records in order. `planFor` is asked before the first one, so that it can refuse. */
  def replay[P](planFor: StateMeta => P)(action: (RecordCursor, P) => Unit): Unit = {
    val plans = (meta +: blocks.map(_._1).toSeq).distinct.map(m => m -> planFor(m)).toMap
    blocks.foreach { case (written, block, keys) =>
      val cursor = block.cursor
      while (cursor.next())
        if (keys == null || keys.keeps(cursor)) action(cursor, plans(written))
    }
  }

  /** Writes the last value of each key. */
  def writeAll(writer: StateStreamWriter): Unit = {
    val last = new util.TreeMap[ByteBuffer, ByteBuffer](RawState.byBytes)
    replay(identity) { (cursor, _) =>
      val key = ByteBuffer.wrap(cursor.array, cursor.keyOffset, cursor.keyLength).slice()
      if (cursor.isPut)
        last.put(key, ByteBuffer.wrap(cursor.array, cursor.valueOffset, cursor.valueLength).slice()): Unit
      else last.remove(key): Unit
    }
    last.forEach { (key, value) =>
      val keyBytes = new Array[Byte](key.remaining)
      key.duplicate().get(keyBytes)
      writer.record(keyBytes, 0, keyBytes.length, value.array, value.arrayOffset, value.remaining)
    }
  }
}

private object RawState {
  private val byBytes: util.Comparator[ByteBuffer] =
    (left, right) =>
      util.Arrays.compareUnsigned(
        left.array,
        left.arrayOffset,
        left.arrayOffset + left.remaining,
        right.array,
        right.arrayOffset,
        right.arrayOffset + right.remaining
      )
}

/**
 * Takes records apart. The views are reused from record to record and hold exactly one key, user key or
 * value.
 */
private[heap] final class RecordReader[K](backend: HeapKeyedStateBackend[K]) {
  private val parts = new KeyParts
  val value = new InputView
  var namespace: Namespace = Namespace.Void

  /** False for a removal, which has no value. */
  var isPut = false

  def userKey: InputView = parts.userKey

  /** Opens the views on the cursor's record and returns its key. */
  def open(cursor: RecordCursor): K = {
    parts.open(cursor.array, cursor.keyOffset, cursor.keyLength)
    namespace = Namespace.of(parts.namespace.readBytes(parts.namespace.remaining))
    value.wrap(cursor.array, cursor.valueOffset, cursor.valueLength)
    isPut = cursor.isPut
    backend.keySerializer.deserialize(parts.key)
  }
}
