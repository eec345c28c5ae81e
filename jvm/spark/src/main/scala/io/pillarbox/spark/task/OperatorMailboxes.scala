package io.pillarbox.spark.task

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import org.apache.spark.TaskContext

/** The mailboxes of one Spark task, by the threads that pull them. Any thread. */
private[pillarbox] final class OperatorMailboxes private {
  private val groups = new ConcurrentHashMap[Thread, MailboxGroup]
  private val operators = new AtomicInteger

  /** Spark makes the upstream iterator first, so a later operator is downstream. */
  private[task] def nextPriority(): Int = operators.getAndIncrement()

  private[task] def groupOfCurrentThread(): MailboxGroup =
    groups.computeIfAbsent(Thread.currentThread(), thread => new MailboxGroup(thread))
}

private[pillarbox] object OperatorMailboxes {
  private val byTask = new ConcurrentHashMap[Long, OperatorMailboxes]
  private final val EndTimeoutMs = 4000L

  /** Makes an operator's mailbox of `context`'s task. */
  def newMailbox(context: TaskContext, endTimeoutMs: Long = EndTimeoutMs): OperatorMailbox = {
    val id = context.taskAttemptId()
    val fresh = new OperatorMailboxes
    val known = byTask.putIfAbsent(id, fresh)
    if (known == null) context.addTaskCompletionListener[Unit](_ => byTask.remove(id, fresh): Unit)
    new OperatorMailbox(if (known == null) fresh else known, context, endTimeoutMs)
  }
}
