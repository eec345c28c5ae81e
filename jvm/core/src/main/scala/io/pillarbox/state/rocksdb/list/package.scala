package io.pillarbox.state.rocksdb

/**
 * How lists lie in chunks, and what changed in them. An element has its number; a chunk has the number of its
 * first element.
 */
package object list
