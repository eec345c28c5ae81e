package io.pillarbox.queue

import java.util.{Arrays, TreeSet}

import io.pillarbox.state.StateBackendException

/** The byte store in memory, which counts what is asked of it. Its content outlives the queues over it. */
final class MemoryOrderedByteStore extends OrderedByteStore {
  private val keys =
    new TreeSet[Array[Byte]]((a: Array[Byte], b: Array[Byte]) => Arrays.compareUnsigned(a, b))
  var puts = 0
  var deletes = 0
  var scans = 0
  var openCursors = 0
  var failScans = false

  override def put(key: Array[Byte]): Unit = {
    puts += 1
    keys.add(key)
  }

  override def delete(key: Array[Byte]): Unit = {
    deletes += 1
    keys.remove(key)
  }

  override def deleteRange(from: Array[Byte], until: Array[Byte]): Unit = {
    deletes += 1
    keys.subSet(from, true, until, false).clear()
  }

  override def flush(): Unit = ()

  def size: Int = keys.size

  override def scan(from: Array[Byte], until: Array[Byte]): OrderedByteCursor = {
    scans += 1
    openCursors += 1
    val found = keys.subSet(from, true, until, false).toArray(Array.empty[Array[Byte]])
    new OrderedByteCursor {
      private var at = -1

      override def advance(): Boolean = {
        if (failScans && at == 1)
          throw new StateBackendException("STATE_STORE_FAILED", "The disk is gone", null)
        at = math.min(at + 1, found.length)
        at < found.length
      }

      override def key: Array[Byte] = found(at).clone()

      override def close(): Unit = openCursors -= 1
    }
  }
}
