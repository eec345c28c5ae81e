package io.pillarbox.state.rocksdb

/**
 * What waits on the heap to be read again or written: cached entries, their order, and sorted runs in a file.
 * No database is used here.
 */
package object cache
