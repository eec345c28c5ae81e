package io.pillarbox

/**
 * Priority queues with set semantics, on the heap and over an ordered byte store such as RocksDB.
 *
 * The queues hold timers, and all else that must leave in order of a `Long` (deadlines, rows sorted by time).
 * Elements come in from the mailbox thread of a task and leave on it: nothing here is thread-safe.
 *
 * What may not live here: anything that knows about timers, operators or state handles. The package depends
 * on key groups (`io.pillarbox.state`) and, in one file, on a database and its logs of writes
 * (`io.pillarbox.state.rocksdb`).
 *
 * The order of every queue is: `priority` ascending, then the tie-break that the queue was given. A duplicate
 * is an element that is `equals` (heap) or has the same bytes (byte store); the element that was there first
 * stays.
 */
package object queue
