package io.pillarbox.mailbox

import java.util.concurrent.{Executor, RejectedExecutionException}

/**
 * The only part of a mailbox that others see: it sends mail with one priority, and yields to mail of at least
 * that priority. So an operator that waits for room can't re-enter work upstream of it.
 *
 * Any thread may send; everything else is for the mailbox thread only.
 */
private[pillarbox] final class MailboxExecutor(mailbox: TaskMailbox, val priority: Int) extends Executor {

  /**
   * Sends an action; its exception fails the task.
   *
   * @throws java.util.concurrent.RejectedExecutionException with a [[MailboxClosedException]] as its cause,
   *   if the mailbox no longer accepts mail
   */
  def execute(command: ThrowingRunnable, description: String): Unit =
    try mailbox.put(new Mail(command, priority, description))
    catch {
      case closed: MailboxClosedException =>
        throw new RejectedExecutionException(s"'$description' was refused: ${closed.getMessage}", closed)
    }

  override def execute(command: Runnable): Unit = execute(() => command.run(), command.toString)

  /**
   * Runs one mail of at least this priority, after sleeping until there is one. For use inside a mail or the
   * default action. What the mail throws is thrown here.
   *
   * @throws InterruptedException if interrupted while waiting
   * @throws MailboxClosedException if there is no such mail and none can arrive
   */
  @throws[InterruptedException]
  def yieldMail(): Unit = mailbox.run(mailbox.take(priority))

  /** Runs one mail of at least this priority if there is one; returns if it did. */
  def tryYield(): Boolean = {
    val mail = mailbox.tryTake(priority)
    if (mail ne null) mailbox.run(mail)
    mail ne null
  }
}
