package io.pillarbox

/**
 * Keyed state: handles, their descriptors, the backends that hold it, and what is written of it.
 *
 * What lives here: the five kinds of state a keyed function can hold and the operator list state, the
 * contract of a [[state.KeyedStateBackend]], key groups. Below it: `serialization` (values to bytes), `ttl`
 * (who is expired), `changelog` (the portable format of snapshots and change logs), `heap` and `rocksdb` (the
 * two backends).
 *
 * What may not: Spark, operators, timers. Data comes from the operator that holds the mailbox thread, through
 * handles, and leaves as a snapshot or a change log on a plain `java.io` stream.
 */
package object state
