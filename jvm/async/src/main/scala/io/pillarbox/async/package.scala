package io.pillarbox

/**
 * Async I/O: many calls to services in flight for one task, with order, capacity, deadlines and retries kept.
 *
 * What lives here: the operator that drives a user's [[api.AsyncFunction]] ([[async.AsyncWaitOperator]]), the
 * stages of a call ([[async.CallPipeline]]), the queues that decide what may leave when ([[async.queue]]) and
 * retry strategies. Its stages ask the limits, budgets and journals of `io.pillarbox.metered`. What may not:
 * Spark, Python, or any knowledge of what a row is. Input comes from the operator's owner on the mailbox
 * thread, answers from any thread, and results leave through [[async.queue.AsyncOutput]] on the mailbox thread.
 *
 * The model is that of Apache Flink's `AsyncWaitOperator` (FLIP-12, FLIP-232).
 */
package object async
