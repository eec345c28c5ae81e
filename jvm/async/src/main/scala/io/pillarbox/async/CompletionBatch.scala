package io.pillarbox.async

import java.util

import io.pillarbox.api.ResultFuture
import io.pillarbox.metered.journal.CallTicket

/**
 * Completes many futures of one operator in one step: for a reader thread that gets many answers at once.
 *
 * The first completion of a future still wins at the moment of its `complete…` call; its effect follows
 * `flush`. For one thread at a time; may be reused after `flush`.
 */
private[pillarbox] final class CompletionBatch[OUT] private[async] (inbox: CompletionInbox) {
  private var newest: CallAttempt[_, _] = _
  private var oldest: CallAttempt[_, _] = _

  /** Does as [[ResultFuture.complete]]. */
  def complete(future: ResultFuture[OUT], results: util.Collection[OUT]): Unit = {
    val attempt = own(future)
    if (attempt.claim(results)) add(attempt)
  }

  /** Does as [[ResultFuture.completeOne]]. */
  def completeOne(future: ResultFuture[OUT], result: OUT): Unit = {
    val attempt = own(future)
    if (attempt.claimOne(result)) add(attempt)
  }

  /** Does as [[ResultFuture.completeExceptionally]]. */
  def completeExceptionally(future: ResultFuture[OUT], error: Throwable): Unit = {
    val attempt = own(future)
    if (attempt.claimError(error)) add(attempt)
  }

  /**
   * Tells that the answer comes later.
   *
   * @param ticket what it is to be asked for by; null if that is known, and there is no answer yet
   */
  def pending(future: ResultFuture[OUT], ticket: CallTicket): Unit = {
    val attempt = own(future)
    if (attempt.claimWait(ticket)) add(attempt)
  }

  private def own(future: ResultFuture[OUT]): CallAttempt[_, OUT] = future match {
    case attempt: CallAttempt[_, OUT @unchecked] if attempt.belongsTo(inbox) => attempt
    case other =>
      throw new IllegalArgumentException(
        s"$other is not a future of the operator that made this batch: use a batch for each operator."
      )
  }

  private def add(attempt: CallAttempt[_, _]): Unit = {
    attempt.next = newest
    if (oldest eq null) oldest = attempt
    newest = attempt
  }

  /** Hands all over, with at most one mail. */
  def flush(): Unit = if (newest ne null) {
    val first = newest
    val last = oldest
    newest = null
    oldest = null
    inbox.pushChain(first, last)
  }
}
