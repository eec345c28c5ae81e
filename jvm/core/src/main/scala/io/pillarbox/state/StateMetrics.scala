package io.pillarbox.state

/**
 * The figures of a backend. Counts are since it was opened; -1 where the backend can't know.
 *
 * @param entries values, list elements and map entries held as of the last commit (RocksDB: entries that
 *   compaction dropped still count)
 * @param fileBytes the bytes of its files, 0 on the heap
 * @param memoryBytes the bytes of write buffers and the write-back cache (the block cache is the process's),
 *   -1 on the heap
 * @param cacheHits reads answered without a file: the write-back cache and the block cache
 * @param cacheMisses reads that went further
 * @param compactionBytes bytes read and written by compaction
 * @param compactionPending true if a compaction waits or runs
 */
private[pillarbox] final case class StateMetrics(
    entries: Long,
    fileBytes: Long,
    memoryBytes: Long,
    cacheHits: Long,
    cacheMisses: Long,
    compactionBytes: Long,
    compactionPending: Boolean
)
