package io.pillarbox.async

import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.atomic.AtomicReference

import scala.annotation.tailrec

import io.pillarbox.mailbox.{MailboxExecutor, ThrowingRunnable}

/**
 * Hands completed attempts from any thread to the mailbox thread: a lock-free stack that is taken whole.
 *
 * Who pushes onto an empty stack sends the mail, so at most one waits however many attempts complete. The word is
 * null (empty, no mail waits), an attempt (the newest), or [[CompletionInbox.MailWaits]].
 *
 * @param handler
 *   what the mail runs; it is to call `takeAll` first
 */
private[async] final class CompletionInbox(executor: MailboxExecutor, handler: ThrowingRunnable)
    extends AtomicReference[AnyRef] {
  import CompletionInbox._

  /** Any thread. */
  def push(attempt: CallAttempt[_, _]): Unit = pushChain(attempt, attempt)

  /** Any thread: a chain of attempts linked from the newest to the oldest, in one step. */
  @tailrec def pushChain(newest: CallAttempt[_, _], oldest: CallAttempt[_, _]): Unit = {
    val seen = get()
    oldest.next = seen match {
      case attempt: CallAttempt[_, _] => attempt
      case _ => null
    }
    if (!compareAndSet(seen, newest)) pushChain(newest, oldest)
    else if (seen eq null) sendMail()
  }

  /** Mailbox thread: lets the handler run again even if nothing completes meanwhile. */
  def runAgain(): Unit = if (compareAndSet(null, MailWaits)) sendMail()

  /** Mailbox thread: all that completed, oldest first; null if nothing. From here on the next push sends a mail. */
  def takeAll(): CallAttempt[_, _] = getAndSet(null) match {
    case newest: CallAttempt[_, _] => reverse(newest, null)
    case _ => null
  }

  @tailrec private def reverse(attempt: CallAttempt[_, _], done: CallAttempt[_, _]): CallAttempt[_, _] =
    if (attempt eq null) done
    else {
      val older = attempt.next
      attempt.next = done
      reverse(older, attempt)
    }

  private def sendMail(): Unit =
    try executor.execute(handler, "emit completed async calls")
    catch {
      // The task has ended. What was in flight is called again after recovery, from the snapshot.
      case _: RejectedExecutionException => ()
    }
}

private[async] object CompletionInbox {
  val MailWaits: AnyRef = new Object
}
