package io.pillarbox.spark

/**
 * The state of a partition in an executor: opened from a version of the checkpoint or found open, committed
 * as the next one, and kept between micro-batches.
 *
 * Lives here: [[state.PartitionState]] and what makes one, how it is loaded, and the thread that writes
 * snapshots and deletes what nobody needs. Files and their names are in `checkpoint`. Knows no operator.
 */
package object state
