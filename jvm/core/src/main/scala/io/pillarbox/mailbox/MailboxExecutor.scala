package io.pillarbox.mailbox

import java.util.concurrent.Executor

/**
 * The only part of a mailbox that others see: it sends mail with one priority, and yields to mail of at least
 * that priority. So an operator that waits for room can't re-enter work upstream of it.
 *
 * Any thread may send; everything else is for the mailbox thread only.
 */
private[pillarbox] trait MailboxExecutor extends Executor {

  def priority: Int

  /**
   * Sends an action; its exception fails the task.
   *
   * @throws java.util.concurrent.RejectedExecutionException with a [[MailboxClosedException]] as its cause,
   *   if the mailbox no longer accepts mail
   */
  def execute(command: ThrowingRunnable, description: String): Unit

  override final def execute(command: Runnable): Unit = execute(() => command.run(), command.toString)

  /**
   * Runs one mail of at least this priority, after sleeping until there is one. For use inside a mail or the
   * default action. What the mail throws is thrown here.
   *
   * @throws InterruptedException if interrupted while waiting
   * @throws MailboxClosedException if there is no such mail and none can arrive
   */
  @throws[InterruptedException]
  def yieldMail(): Unit

  /** Runs one mail of at least this priority if there is one; returns if it did. */
  def tryYield(): Boolean
}
