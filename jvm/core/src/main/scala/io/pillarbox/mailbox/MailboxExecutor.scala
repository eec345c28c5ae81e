package io.pillarbox.mailbox

import java.util.concurrent.{Callable, CompletableFuture, Executor}

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
  def execute(command: ThrowingRunnable, options: MailOptions, description: String): Unit

  final def execute(command: ThrowingRunnable, description: String): Unit =
    execute(command, MailOptions.Default, description)

  override final def execute(command: Runnable): Unit =
    execute(() => command.run(), MailOptions.Default, command.toString)

  /**
   * Sends an action whose result or exception goes to the future only. Cancelled if the mailbox is closed
   * before.
   *
   * @throws java.util.concurrent.RejectedExecutionException if the mailbox no longer accepts mail
   */
  def submit[T](command: Callable[T], description: String): CompletableFuture[T]

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

  /**
   * Runs all mail of at least this priority, also the mail that these mails send, and deferrable mail of such
   * senders, which yields pass over: at the end of input it would be lost otherwise.
   */
  def finish(): Unit

  /** True if a long action should pause, since mail waits. */
  def shouldInterrupt: Boolean

  /**
   * True if the default action is suspended, no mail waits, and more could come.
   *
   * @throws IllegalStateException if this executor belongs to no processor
   */
  def isIdle: Boolean
}
