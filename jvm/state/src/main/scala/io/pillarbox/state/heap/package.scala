package io.pillarbox.state

/**
 * The backend that keeps state as objects in open-addressing tables on the heap.
 *
 * A table is a set of parallel columns (keys, values, timestamps) that entries fill densely, and an index of
 * longs into them, which also holds the flags of changes. An entry keeps its place until it is removed, so a
 * position identifies it cheaply: handles remember the position of the current key, the list of changed
 * entries holds positions, and incremental clean-up walks the columns. Layout after the "compact dict" of
 * Raymond Hettinger (Python 3.6), with linear probing and backward-shift deletion.
 */
package object heap
