package io.pillarbox.spark

/**
 * The versions of a partition's state on the query's checkpoint file system: the files, their names and their
 * formats.
 *
 * A partition has a folder `<checkpoint>/state/<operator>/<partition>`. Every commit adds one delta,
 * atomically; now and then a snapshot follows in the background. A version is loaded from the newest snapshot
 * up to it and the deltas after that. The names carry the id of the attempt that wrote them.
 *
 * Knows neither operators nor the storage of state in an executor, which is in `state`.
 */
package object checkpoint
