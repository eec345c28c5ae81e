package io.pillarbox.state.rocksdb

/**
 * The database: its folder, memory, column families, batches of writes, compaction by age. Nothing here knows
 * the meaning of the bytes.
 */
package object store
