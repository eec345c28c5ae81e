package io.pillarbox.spark

/**
 * Async I/O as a Spark task: rows of a partition become calls of a user's function, and its answers become
 * rows.
 *
 * Here live the operator that the task's mailbox drives, the limits that tasks of an executor share, and the
 * policy for failed calls. The function is a class of the JVM or Python's, which is in `python`.
 */
package object async
