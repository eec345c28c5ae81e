package io.pillarbox.state

/**
 * The backend that keeps state as bytes in RocksDB (plain rocksdbjni), for state larger than memory.
 *
 * Reads and writes go through a write-back cache on the heap, so that a key that is read, changed and changed
 * again costs one write to RocksDB, later, in a batch; a commit takes the changes from there. Maps are one
 * RocksDB entry an entry, lists chunks of elements. The memory of all databases of the process is bounded by
 * [[rocksdb.RocksDBMemory]].
 */
package object rocksdb
