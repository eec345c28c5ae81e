package io.pillarbox.state.rocksdb

/**
 * The database: its folder, memory, column families, batches of writes, compaction by age. What the bytes
 * mean is not known here.
 */
package object store
