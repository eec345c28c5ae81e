package io.pillarbox.async

import java.util
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicReference

import scala.util.control.NonFatal

import io.pillarbox.api.RetryAfter
import io.pillarbox.async.retry.FutureWrappers
import io.pillarbox.metered.journal.CallTicket
import io.pillarbox.metered.limit.{Feedback, Permit}
import io.pillarbox.metered.usage.Usage

/**
 * One attempt of one element, and the future given to the function for it.
 *
 * The reference is null until one side wins it by compare-and-set: an answer, or [[CallAttempt.Abandoned]] by
 * the mailbox thread. So an answer and a deadline exclude each other. `kind` is written by the winner only,
 * and read after the hand-over through the inbox, which orders the two. The winner gives the permit back, so
 * that it is free the moment the call ends, also while the mailbox thread is busy elsewhere.
 *
 * @param permit the permit that this attempt gives back at its end, or null
 * @param group the elements that are called together with this one, or null
 */
private[async] final class CallAttempt[IN, OUT](
    inbox: CompletionInbox,
    val element: InFlightElement[IN, OUT],
    override val attempt: Int,
    permit: Permit,
    val group: CallGroup[IN, OUT] = null
) extends AtomicReference[AnyRef]
    with ElementFuture[OUT] {
  import CallAttempt._

  private var kind: Int = _

  /** The time of its start, by `nanoTime`. Mailbox thread. */
  var startNanos: Long = NotBegun

  def hasBegun: Boolean = startNanos != NotBegun

  /** True if the function has it before its turn. */
  def isAhead: Boolean = !hasBegun && !isStandIn

  /** True if it asks for the answer of a ticket. */
  val isPoll: Boolean = element.hasTicket

  /** True if its answer is the function's replacement for one that did not come. Mailbox thread. */
  var isStandIn: Boolean = false

  /** True if somebody was told that it takes long. Mailbox thread. */
  var isTold: Boolean = false

  /** The reason why no answer counts as the service's any more; null while one does. */
  @volatile var overdue: Throwable = _

  /** The attempt that was completed before this one; a link of the inbox. */
  private[async] var next: CallAttempt[_, _] = _

  /** The amounts that were reported for this attempt; null for none. */
  @volatile private var reported: Usage = _

  /** What was reported for this attempt; null if nothing was. Any thread. */
  def usage: Usage = reported

  override def reportUsage(unit: String, amount: Double): Unit = {
    val counted = element.counted(unit, amount)
    synchronized {
      if (reported eq null) reported = new Usage(element.units)
    }
    reported.add(unit, counted)
    element.used(unit, counted)
  }

  override def complete(results: util.Collection[OUT]): Unit = if (claim(results)) handOver()

  override def completeOne(result: OUT): Unit = if (claimOne(result)) handOver()

  override def completeExceptionally(error: Throwable): Unit = if (claimError(error)) handOver()

  private def handOver(): Unit = inbox.push(this)

  private[async] def claim(results: util.Collection[OUT]): Boolean =
    if (results eq null) claimError(nullAnswer("complete", "an empty collection to emit nothing"))
    else win(results, Rows)

  private[async] def claimOne(result: OUT): Boolean = {
    val row = result.asInstanceOf[AnyRef]
    if (row eq null)
      claimError(nullAnswer("completeOne", "complete with an empty collection to emit nothing"))
    else win(row, OneRow)
  }

  private[async] def claimError(error: Throwable): Boolean =
    win(if (error eq null) nullAnswer("completeExceptionally", "an exception") else error, Failure)

  /** @param ticket null if its ticket has no answer yet */
  private[async] def claimWait(ticket: CallTicket): Boolean =
    win(if (ticket eq null) NotYet else ticket, Wait)

  private def nullAnswer(method: String, instead: String): Throwable = new NullPointerException(
    s"$method(null) was called on the future of element $elementId, attempt $attempt: use $instead."
  )

  private def win(answer: AnyRef, answerKind: Int): Boolean = {
    // A plain read first: a late answer need not take the cache line for itself.
    val won = (getPlain eq null) && compareAndSet(null, answer)
    if (won) {
      kind = answerKind
      if (permit ne null) {
        val failure = if (overdue ne null) overdue else if (answerKind == Failure) error else null
        permit.observe(startNanos, failure)
        tellUse()
        if (failure ne null) pauseAll(FutureWrappers.unwrapped(failure))
        permit.release()
      }
    }
    won
  }

  /** What is collected was used by the service when it saw fit, so limits don't count it. */
  private def tellUse(): Unit = {
    val use = reported
    if ((use ne null) && !isPoll) permit.used(use.ifReported)
  }

  /** Lets the whole limit wait if the failure says so; one that can't say fails the call, elsewhere. */
  private def pauseAll(failure: Throwable): Unit = failure match {
    case own: RetryAfter =>
      try if (own.all) permit.pause(TimeUnit.MILLISECONDS.toNanos(own.retryAfterMs))
      catch { case NonFatal(_) => () }
    case _ => ()
  }

  override def told(unit: Int, said: Feedback): Unit = if (permit ne null) permit.told(unit, said)

  override def pauseLimits(nanos: Long): Unit = if (permit ne null) permit.pause(nanos)

  /**
   * Mailbox thread: ends the wait for an answer; false if there is one.
   *
   * @param reason the failure of the attempt; null if it was cancelled
   */
  def abandon(reason: Throwable = null): Boolean = {
    val won = compareAndSet(null, if (reason eq null) Abandoned else reason)
    if (won) {
      kind = Failure
      if (permit ne null) {
        if (reason ne null) permit.observe(startNanos, reason)
        tellUse()
        permit.release()
      }
    }
    won
  }

  /** Mailbox thread: replaces its failure. */
  def fail(error: Throwable): Unit = set(error)

  /** Mailbox thread: makes it the failure of its call, which is not made again. */
  def endAs(error: Throwable): Unit = {
    set(error)
    kind = Failure
    isStandIn = true
  }

  def belongsTo(other: CompletionInbox): Boolean = inbox eq other

  override def isDone: Boolean = get ne null

  def isFailure: Boolean = kind == Failure

  /** True if the service answered it. */
  def isAnswer: Boolean = !isStandIn && (kind == Rows || kind == OneRow)

  /** True if the answer comes later. */
  def isWait: Boolean = kind == Wait

  /** The ticket that it was given; only of an attempt that waits, and is no poll. */
  def ticket: CallTicket = get.asInstanceOf[CallTicket]

  override def ticketRound: Int = element.ticketRound

  def error: Throwable = get.asInstanceOf[Throwable]

  /** The rows of an attempt that did not fail. */
  def rows: util.Collection[OUT] =
    if (kind == OneRow) util.Collections.singletonList(get.asInstanceOf[OUT])
    else get.asInstanceOf[util.Collection[OUT]]

  /** Gives its rows to an element, if it did not fail. */
  def answer(to: InFlightElement[IN, OUT]): Unit =
    if (kind == OneRow) to.setResult(get.asInstanceOf[OUT]) else to.setResults(rows)

  override def elementId: Long = element.elementId

  override def callId: String = element.callId

  override def elapsedMs: Long = element.elapsedMs

  override def toString: String = s"element $elementId, attempt $attempt"
}

private[async] object CallAttempt {

  /** Makes the future for the replacement of an answer, of a call without an attempt under way. */
  def standIn[IN, OUT](inbox: CompletionInbox, call: InFlightElement[IN, OUT]): CallAttempt[IN, OUT] = {
    val attempt = new CallAttempt[IN, OUT](inbox, call, call.attempts, null)
    attempt.isStandIn = true
    call.current = attempt
    attempt
  }

  private final val NotBegun = Long.MinValue
  private final val Rows = 1
  private final val OneRow = 2
  private final val Failure = 3
  private final val Wait = 4
  private val NotYet = new Object
  private val Abandoned = new Object
}
