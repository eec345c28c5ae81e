package io.pillarbox.spark.async

/**
 * Python's async functions: calls go to the worker and answers come back, each by its element and attempt, in
 * any order.
 *
 * Here live the two threads beside the mailbox's, and the frames that they send and read. Answers go to the
 * [[python.PythonAsyncFunction]].
 */
package object python
