package io.pillarbox.state.rocksdb

/**
 * Entries as bytes, over cache and database, and those that a commit must tell of. Keys and values are
 * regions of bytes.
 */
package object entries
