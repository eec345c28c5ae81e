package io.pillarbox.spark

/**
 * Reads the state of a query out of its checkpoint, as DataFrames, whether the query runs or not.
 *
 * Nothing here writes to a checkpoint or needs the function that did: types are stored with the state. The
 * driver looks up the contents; a task for each partition loads its state through `state` and turns its
 * entries into rows.
 */
package object inspect
