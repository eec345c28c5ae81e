package io.pillarbox.spark.keyed

/**
 * Keyed functions made of SQL expressions over a row and the state of its key. The driver compiles them,
 * tasks run them.
 */
package object scan
