package io.pillarbox.state.rocksdb.store

import java.nio.file.Path

import io.pillarbox.state.rocksdb.cache.CacheBudget

/**
 * Where and how a database is kept.
 *
 * @param directory its own; created if missing, left in place on close
 * @param memoryLimit of the process's [[RocksDBMemory]], in bytes
 * @param cacheBytes of this backend's write-back cache on the heap, about
 * @param sharedCache what the cache may take beyond that, as long as it is there
 * @param compactionMargin how long, at least, an expired entry stays before compaction may drop it, in
 *   milliseconds: RocksDB measures age by the wall clock, state by its own clock
 * @param clockBehind how far the state's clock is behind the machine's now, in milliseconds, as when a batch
 *   of yesterday is run again; see [[io.pillarbox.state.KeyedStateBackend.timeIs]]
 * @param diskLimit the files of this database may not take more, in bytes; 0 for no limit
 * @param listChunkBytes how much of a list lies in one entry of the database, and so is written at once,
 *   about
 * @param statistics whether cache hits and compaction are counted, at a few percent of the speed
 */
private[pillarbox] final case class RocksDBConfig(
    directory: Path,
    memoryLimit: Long = 256L << 20,
    cacheBytes: Int = 8 << 20,
    sharedCache: CacheBudget = CacheBudget.None,
    compactionMargin: Long = 3600L * 1000,
    clockBehind: Long = 0L,
    diskLimit: Long = 0L,
    listChunkBytes: Int = 4096,
    statistics: Boolean = false
) {
  require(cacheBytes >= (16 << 10), s"The write-back cache needs 16 KiB or more, found $cacheBytes bytes")
  require(listChunkBytes > 0, s"A list's chunk needs a byte or more, found $listChunkBytes")
  require(compactionMargin >= 0, s"compactionMargin must be 0 or more, found $compactionMargin ms")
  require(clockBehind >= 0, s"clockBehind must be 0 or more, found $clockBehind ms")
}
