package io.pillarbox.spark

/**
 * What every operator has in a Spark task, whatever it does: a mailbox and its thread, and the end of the
 * task.
 *
 * Lives here: lanes. Knows neither kind of operator, nor Python.
 */
package object task
