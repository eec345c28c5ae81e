package io.pillarbox.spark

/**
 * Versions of a partition's state on the query's checkpoint file system, and the state that an executor keeps open
 * between micro-batches.
 *
 * A partition has a folder `<checkpoint>/state/<operator>/<partition>`. Every commit adds one delta, atomically;
 * now and then a snapshot follows in the background. A version is loaded from the newest snapshot up to it and the deltas
 * after that. Under Spark's state-store checkpoint format 2 the names carry the id of the attempt that wrote them.
 *
 * Nothing here knows operators or plans: it gets and gives back `keyed.PartitionState`.
 */
package object checkpoint
