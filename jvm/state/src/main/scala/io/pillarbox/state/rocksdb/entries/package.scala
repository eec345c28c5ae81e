package io.pillarbox.state.rocksdb

/**
 * Entries as bytes, over cache and database, and those for the next commit. Keys and values are regions of
 * bytes.
 */
package object entries
