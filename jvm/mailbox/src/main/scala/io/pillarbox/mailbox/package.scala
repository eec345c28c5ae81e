package io.pillarbox

/**
 * The mailbox thread model: one thread a task, and everything that happens to the task arrives there as mail.
 *
 * What lives here: mail and its queue ([[mailbox.TaskMailbox]]), the loop that a task runs
 * ([[mailbox.MailboxProcessor]]), the interface through which others send mail ([[mailbox.MailboxExecutor]]),
 * timers that fire as mail ([[mailbox.ProcessingTimeService]]) and the thread that reads a blocking input
 * beside the task ([[mailbox.SourceThread]]). What may not: any knowledge of rows, state, operators or Spark.
 * Mail comes in from any thread; it runs on the mailbox thread only.
 *
 * The model, its words and its priorities are Apache Flink's (`StreamTask` since 1.10). The put side here is
 * a lock-free stack whose head word also holds the state of the mailbox, after R. K. Treiber, "Systems
 * Programming: Coping with Parallelism" (1986).
 */
package object mailbox
