package io.pillarbox

/**
 * Keyed state: the backends that hold it, and what is written of it. Its handles, descriptors and serializers
 * are in [[api]].
 *
 * What lives here: what is stamped ([[state.Stamped]]), the contract of a [[state.KeyedStateBackend]], key
 * groups, the operator list state. Below it: `ttl` (who is expired), `changelog` (the portable format of
 * snapshots and change logs), `heap` and `rocksdb` (the two backends).
 *
 * What may not: Spark, operators, timers. Data comes from the operator that holds the mailbox thread, through
 * handles, and leaves as a snapshot or a change log on a plain `java.io` stream.
 */
package object state
