package io.pillarbox.state.rocksdb.store

import java.nio.file.Path

import io.pillarbox.state.rocksdb.cache.CacheBudget

/**
 * The place and the settings of a database.
 *
 * @param directory its own; created if missing, left in place on close
 * @param memoryLimit the limit of the process's [[RocksDBMemory]], in bytes
 * @param cacheBytes the size of this backend's write-back cache on the heap, about
 * @param sharedCache the budget for more of that cache
 * @param compactionMargin the least time that an expired entry stays before compaction may drop it, in
 *   milliseconds: RocksDB measures age by the wall clock, state by its own clock
 * @param clockBehind the lag of the state's clock behind the machine's now, in milliseconds, as when a batch
 *   of yesterday is run again; see [[io.pillarbox.state.KeyedStateBackend.timeIs]]
 * @param diskLimit the most bytes that the files of this database may take; 0 for no limit
 * @param listChunkBytes the bytes of a list in one entry of the database, which are written at once, about
 */
private[pillarbox] final case class RocksDBConfig(
    directory: Path,
    memoryLimit: Long = RocksDBMemory.default,
    cacheBytes: Int = 8 << 20,
    sharedCache: CacheBudget = CacheBudget.None,
    compactionMargin: Long = 3600L * 1000,
    clockBehind: Long = 0L,
    diskLimit: Long = 0L,
    listChunkBytes: Int = 4096
) {
  require(cacheBytes >= (16 << 10), s"The write-back cache needs 16 KiB or more, found $cacheBytes bytes")
  require(listChunkBytes > 0, s"A list's chunk needs a byte or more, found $listChunkBytes")
  require(compactionMargin >= 0, s"compactionMargin must be 0 or more, found $compactionMargin ms")
  require(clockBehind >= 0, s"clockBehind must be 0 or more, found $clockBehind ms")
}
