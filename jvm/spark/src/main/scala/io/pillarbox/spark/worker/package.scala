package io.pillarbox.spark

/**
 * A task's Python worker: its life, the frames between it and the JVM, the rows in them as Arrow, and its
 * errors. Knows neither kind of operator: the `python` package of each knows the meaning of its frames.
 */
package object worker
