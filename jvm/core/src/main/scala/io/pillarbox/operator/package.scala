package io.pillarbox

/**
 * Keyed process functions and the operators that run them.
 *
 * Rows come from whoever drives the operator (a Spark task, a test harness), on the mailbox thread; the function sees
 * them with the state and timers of their key, and what it emits leaves through [[operator.Output]]. State, queues and
 * timers don't know this package. What may not live here: Spark, threads, files.
 */
package object operator
