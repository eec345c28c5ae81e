package io.pillarbox.spark

/**
 * The parts of a Spark task that every operator needs: a mailbox with its thread, and the end of the task.
 * Knows neither kind of operator, nor Python.
 */
package object task
