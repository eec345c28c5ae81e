package io.pillarbox.spark

/**
 * The state of a partition in an executor: opened from a version of the checkpoint or found open, committed
 * as the next one, and kept between micro-batches.
 *
 * Here live [[state.PartitionState]] with its makers and loaders, and the thread that writes snapshots and
 * deletes old files. Files and their names are in `checkpoint`. Knows no operator.
 */
package object state
