package io.pillarbox.spark.keyed

/** Keyed functions that are classes of the JVM, called row by row. */
package object jvm
