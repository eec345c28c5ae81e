package io.pillarbox.state.rocksdb

/**
 * The entries on the heap that are to be read again or written: cached entries, their order, and sorted runs
 * in a file. No database is used here.
 */
package object cache
