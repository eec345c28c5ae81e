package io.pillarbox.queue

/**
 * A set of byte strings in unsigned lexicographic order: the part of RocksDB that a queue needs.
 *
 * Writes may be held back until `flush`; a `scan` sees every write made before it. Keys that are passed in
 * must not be changed afterwards. Used by one thread. A storage that fails throws
 * [[io.pillarbox.state.StateBackendException]].
 */
private[pillarbox] trait OrderedByteStore {

  /** Adds `key`; without effect if it is there. */
  def put(key: Array[Byte]): Unit

  /** Removes `key`; without effect if it is not there. */
  def delete(key: Array[Byte]): Unit

  /** Removes all keys from `from` (included) to `until` (excluded), at the cost of one delete. */
  def deleteRange(from: Array[Byte], until: Array[Byte]): Unit

  /** Hands all writes to the storage, so that a checkpoint of it holds them. */
  def flush(): Unit

  /**
   * Returns the keys from `from` (included) to `until` (excluded) as they are now: later writes don't show.
   *
   * Never reads a key, or the trace of a deleted key, outside of these bounds.
   */
  def scan(from: Array[Byte], until: Array[Byte]): OrderedByteCursor
}

/** Stands before the first key when it is made. May hold native memory: close it. */
private[pillarbox] trait OrderedByteCursor extends AutoCloseable {

  /** Moves to the next key. False at the end, for ever after. */
  def advance(): Boolean

  /** The key it stands on, a copy. Only after an `advance` that was true. */
  def key: Array[Byte]

  override def close(): Unit
}
