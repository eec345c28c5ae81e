package io.pillarbox.spark.async

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import io.pillarbox.mailbox.{Mail, MailOptions, TaskActionExecutor, TaskMailbox}
import org.apache.spark.{TaskContext, TaskKilledException}

/**
 * The mailboxes of one Spark task: one for each thread that pulls rows through our operators.
 *
 * Operators that are chained in a stage run on the same thread and share its mailbox, so that an operator which
 * waits for its input still handles the answers, timeouts and retries of those below it. (Spark hands some
 * iterators to threads of its own, hence a mailbox a thread, not a task.)
 */
final class TaskMailboxes private {
  private val byThread = new ConcurrentHashMap[Thread, TaskMailbox]
  private val operators = new AtomicInteger

  /**
   * The priority of the next operator of this task. Spark makes the upstream iterator first, so a later operator is
   * downstream and has the higher priority.
   */
  def nextPriority(): Int = operators.getAndIncrement()

  /** The mailbox of the calling thread. */
  def ofCurrentThread(): TaskMailbox =
    byThread.computeIfAbsent(Thread.currentThread(), thread => new TaskMailbox(thread))

  private def close(): Unit = byThread.values.forEach(mailbox => mailbox.close().forEach(_.tryCancel()))

  /** Wakes the threads that sleep on a mailbox, so that a killed task ends even if Spark does not interrupt it. */
  private def interrupt(reason: String): Unit = byThread.values.forEach { mailbox =>
    mailbox.runExclusively { () =>
      if (mailbox.state.acceptsMail) mailbox.put(TaskMailboxes.killMail(reason))
    }
  }
}

object TaskMailboxes {
  private val byTask = new ConcurrentHashMap[Long, TaskMailboxes]

  /** The mailboxes of `context`'s task; closed when the task completes. */
  def of(context: TaskContext): TaskMailboxes = {
    val fresh = new TaskMailboxes
    val known = byTask.putIfAbsent(context.taskAttemptId(), fresh)
    if (known == null) {
      closeWith(context, fresh)
      fresh
    } else known
  }

  private def closeWith(context: TaskContext, mailboxes: TaskMailboxes): Unit = {
    context.addTaskCompletionListener[Unit] { _ =>
      byTask.remove(context.taskAttemptId())
      mailboxes.close()
    }
    context.addTaskInterruptListener((_, reason) => mailboxes.interrupt(reason))
  }

  private def killMail(reason: String): Mail = new Mail(
    () => throw new TaskKilledException(reason),
    TaskMailbox.MaxPriority,
    MailOptions.Urgent,
    "kill the task",
    TaskActionExecutor.Immediate
  )
}
