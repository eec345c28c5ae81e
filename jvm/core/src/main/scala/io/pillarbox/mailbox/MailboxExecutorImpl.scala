package io.pillarbox.mailbox

import java.util.concurrent.{Callable, CompletableFuture, RejectedExecutionException, RunnableFuture}

import scala.annotation.tailrec
import scala.util.control.NonFatal

/**
 * Sends to and yields from `mailbox` with a fixed priority.
 *
 * @param processor owns the default action that `isIdle` looks at; may be null
 */
private[pillarbox] final class MailboxExecutorImpl(
    mailbox: TaskMailbox,
    val priority: Int,
    runner: TaskActionExecutor,
    processor: MailboxProcessor
) extends MailboxExecutor {
  import MailboxExecutorImpl.Submitted

  def this(mailbox: TaskMailbox, priority: Int) =
    this(mailbox, priority, TaskActionExecutor.Immediate, null)

  override def execute(command: ThrowingRunnable, options: MailOptions, description: String): Unit =
    try mailbox.put(new Mail(command, priority, options, description, runner))
    catch {
      case closed: MailboxClosedException =>
        throw new RejectedExecutionException(s"'$description' was refused: ${closed.getMessage}", closed)
    }

  override def submit[T](command: Callable[T], description: String): CompletableFuture[T] = {
    val future = new Submitted(command)
    execute(future, MailOptions.Default, description)
    future
  }

  override def yieldMail(): Unit = mailbox.run(mailbox.take(priority))

  override def tryYield(): Boolean = runIfAny(mailbox.tryTake(priority))

  @tailrec override def finish(): Unit = if (runIfAny(mailbox.tryTakeWithDeferred(priority))) finish()

  private def runIfAny(mail: Mail): Boolean = {
    if (mail ne null) mailbox.run(mail)
    mail ne null
  }

  override def shouldInterrupt: Boolean = mailbox.hasMail

  override def isIdle: Boolean = {
    if (processor eq null)
      throw new IllegalStateException(
        s"This executor of priority $priority has no MailboxProcessor to ask: get it from " +
          "MailboxProcessor.mailboxExecutor."
      )
    !processor.isDefaultActionAvailable && !mailbox.hasMail && mailbox.state.acceptsMail
  }
}

private object MailboxExecutorImpl {

  /** A mail and its future in one, so that a mailbox which drops the mail can cancel the future. */
  private final class Submitted[T](command: Callable[T])
      extends CompletableFuture[T]
      with RunnableFuture[T]
      with ThrowingRunnable {

  /** A future that is cancelled before the run stays so, which is no error. */
    override def run(): Unit = if (!isDone) {
      try complete(command.call())
      catch {
        case NonFatal(error) => completeExceptionally(error)
        case fatal: Throwable =>
          completeExceptionally(fatal)
          throw fatal
      }
    }
  }
}
