package io.pillarbox.async

import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.atomic.AtomicReference

import scala.annotation.tailrec

import io.pillarbox.mailbox.{MailboxExecutor, ThrowingRunnable}

/**
 * Hands completed attempts from any thread to the mailbox thread: a lock-free stack that is taken whole.
 *
 * The word is null (empty, no mail under way), [[CompletionInbox.UnderWay]] (empty, a mail waits or runs), or
 * the newest attempt (a mail waits or runs). Only the push that finds null sends a mail, so at most one is
 * under way however many attempts complete, also while it runs. A queue of the JDK doesn't tell which thread
 * has to send it.
 *
 * @param handler runs in the mail; it is to call `takeAll`, and `handled` at its end
 */
private[async] final class CompletionInbox(executor: MailboxExecutor, handler: ThrowingRunnable)
    extends AtomicReference[AnyRef] {
  import CompletionInbox._

  /** Adds an attempt. Any thread. */
  def push(attempt: CallAttempt[_, _]): Unit = pushChain(attempt, attempt)

  /** Any thread: adds a chain of attempts linked from the newest to the oldest, in one step. */
  @tailrec def pushChain(newest: CallAttempt[_, _], oldest: CallAttempt[_, _]): Unit = {
    val seen = get()
    oldest.next = seen match {
      case attempt: CallAttempt[_, _] => attempt
      case _ => null
    }
    if (!compareAndSet(seen, newest)) pushChain(newest, oldest)
    else if (seen eq null) sendMail()
  }

  /** Mailbox thread: lets the handler run even if nothing completes meanwhile. */
  def runSoon(): Unit = if (compareAndSet(null, UnderWay)) sendMail()

  /** Mailbox thread, in the handler: returns all that completed, oldest first; null if nothing. */
  def takeAll(): CallAttempt[_, _] = getAndSet(UnderWay) match {
    case newest: CallAttempt[_, _] => reverse(newest, null)
    case _ => null
  }

  /**
   * Mailbox thread: ends the handler.
   *
   * @param again true if the handler has left something to do; later completions make it run again anyway
   */
  def handled(again: Boolean): Unit = if (again || !compareAndSet(UnderWay, null)) sendMail()

  def hasCompleted: Boolean = get().isInstanceOf[CallAttempt[_, _]]

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
  val UnderWay: AnyRef = new Object
}
