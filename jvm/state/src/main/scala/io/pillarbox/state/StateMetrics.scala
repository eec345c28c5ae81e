package io.pillarbox.state

/**
 * The figures of a backend; -1 where the backend can't know.
 *
 * @param entries values, list elements and map entries held as of the last commit (RocksDB: entries that
 *   compaction dropped still count)
 * @param fileBytes the bytes of its files, 0 on the heap
 * @param memoryBytes the bytes of write buffers and the write-back cache (the block cache is the process's),
 *   -1 on the heap
 */
private[pillarbox] final case class StateMetrics(
    entries: Long,
    fileBytes: Long,
    memoryBytes: Long
)
