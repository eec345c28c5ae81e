package io.pillarbox.state.rocksdb

/**
 * The chunks of lists, and their changes. An element has its number; a chunk has the number of its first
 * element.
 */
package object list
