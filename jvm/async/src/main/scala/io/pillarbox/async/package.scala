package io.pillarbox

/**
 * Async I/O: many calls to services in flight for one task, with order, capacity, deadlines and retries kept.
 *
 * What lives here: the operator that drives a user's [[api.AsyncFunction]] ([[async.AsyncWaitOperator]]), the
 * stages of a call's way ([[async.CallWay]]), the queues that decide what may leave when
 * ([[async.StreamElementQueue]]), retry strategies, and gates that limit calls over many operators
 * ([[async.CallGate]]). What may not: Spark, Python, or any knowledge of what a row is. Input comes from the
 * operator's owner on the mailbox thread, answers from any thread, and results leave through
 * [[async.AsyncOutput]] on the mailbox thread.
 *
 * The model is that of Apache Flink's `AsyncWaitOperator` (FLIP-12, FLIP-232).
 */
package object async
