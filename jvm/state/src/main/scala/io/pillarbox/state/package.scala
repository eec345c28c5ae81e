package io.pillarbox

/**
 * Keyed state: the backends that hold it, and the streams that they write. Its handles, descriptors and
 * serializers are in [[api]].
 *
 * What lives here: stamped state ([[state.Stamped]]), the contract of a [[state.KeyedStateBackend]], key
 * groups. Below it: `ttl` (expiry), `changelog` (the portable format of snapshots and change logs), `heap`
 * and `rocksdb` (the two backends).
 *
 * What may not: Spark, operators, timers. Data comes from the operator that holds the mailbox thread, through
 * handles, and leaves as a snapshot or a change log on a plain `java.io` stream.
 */
package object state
