package io.pillarbox.spark.keyed

/** Keyed functions of SQL expressions over a row and its key's state. The driver compiles, tasks run them. */
package object scan
