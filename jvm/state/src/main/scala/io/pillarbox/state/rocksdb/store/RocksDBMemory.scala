package io.pillarbox.state.rocksdb.store

import org.rocksdb.{Cache, LRUCache, RocksDB, WriteBufferManager}

/**
 * Bounds the native memory of all databases of the process: one block cache for data, index and filter
 * blocks, to which the write buffers are charged as well.
 *
 * The first [[RocksDBMemory.acquire]] creates it and the last [[close]] frees it. Thread-safe.
 *
 * @param limit in bytes, for all databases together
 */
private[pillarbox] final class RocksDBMemory private (val limit: Long, writeBufferRatio: Double)
    extends AutoCloseable {
  private val lru = new LRUCache(limit, RocksDBMemory.shardBits(limit), false, 0.1)
  private val writeBuffers = (limit * writeBufferRatio).toLong
  private val manager = new WriteBufferManager(writeBuffers, lru)
  @volatile private var users = 0

  /** The shared block cache. Don't close it. */
  def cache: Cache = lru

  /** The shared write-buffer manager. Don't close it. */
  def writeBufferManager: WriteBufferManager = manager

  /**
   * The bytes of a write buffer in a database that is opened now: a share of all of them. What a buffer takes
   * while it is empty goes by its size, and of hundreds of databases each has several.
   */
  def writeBufferBytes: Long =
    math.min(RocksDBMemory.LargestBuffer, math.max(RocksDBMemory.LeastBuffer, writeBuffers / users))

  /** The part of a database that is opened now, if all have as much. */
  def share: Long = limit / math.max(1, users)

  /** The bytes in use, write buffers included. */
  def usage: Long = lru.getUsage

  /** Gives one acquisition back. */
  override def close(): Unit = RocksDBMemory.release(this)

  private def free(): Unit = {
    manager.close()
    lru.close()
  }
}

private[pillarbox] object RocksDBMemory {

  /** The part of the limit for write buffers, at most. */
  private val WriteBufferRatio = 0.5
  private var current: RocksDBMemory = _

  /** RocksDB's own default. */
  private final val LargestBuffer = 64L << 20
  private final val LeastBuffer = 256L << 10

  /** The limit where none is set: 256 MiB, or an eighth of a heap of less than 2 GiB, in bytes. */
  lazy val default: Long = math.max(16L << 20, math.min(256L << 20, Runtime.getRuntime.maxMemory / 8))

  /** The least size of a shard: a block that doesn't fit its shard is read again each time. */
  private val ShardBytes = 16L << 20

  private def shardBits(limit: Long): Int =
    math.min(6, 63 - java.lang.Long.numberOfLeadingZeros(math.max(1L, limit / ShardBytes)))

  /**
   * Returns the memory of this process, to be closed once for each call.
   *
   * @param limit in bytes; it counts for the first of those that hold the memory at the same time, which the
   *   others share
   */
  def acquire(limit: Long): RocksDBMemory = synchronized {
    require(limit >= (1L << 20), s"RocksDB needs at least 1 MiB of memory, found a limit of $limit bytes")
    RocksDB.loadLibrary()
    if (current == null) current = new RocksDBMemory(limit, WriteBufferRatio)
    current.users += 1
    current
  }

  private def release(memory: RocksDBMemory): Unit = synchronized {
    memory.users -= 1
    if (memory.users == 0) {
      memory.free()
      if (current eq memory) current = null
    }
  }
}
