package io.pillarbox

/**
 * Keyed process functions, and the order in which they see a key's rows and timers.
 *
 * Rows come from the owner of an [[operator.KeyedSchedule]] (a Spark task), on the mailbox thread, through
 * [[operator.Rows]]; the schedule gives them and the timers that are due to an [[operator.KeyedTarget]], such
 * as a function, with the state and timers of their key. What a function emits leaves through
 * [[operator.Output]]. State, queues and timers don't know this package. What may not live here: Spark,
 * threads, files.
 */
package object operator
