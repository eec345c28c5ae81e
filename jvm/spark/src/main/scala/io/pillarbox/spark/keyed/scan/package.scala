package io.pillarbox.spark.keyed

/**
 * Keyed functions made of SQL expressions over a row and the state of its key: compiled on the driver, run in
 * tasks.
 */
package object scan
