package io.pillarbox.async

import java.util

import scala.annotation.unused
import scala.util.control.NonFatal

import io.pillarbox.api.{AsyncFunction, AsyncTimeoutException, NotRetryable, ResultFuture, RetryAfter}
import io.pillarbox.async.InFlightElement._
import io.pillarbox.async.gate.{CallGate, Permit, PermitLine}
import io.pillarbox.async.retry.{FailedCall, FutureWrappers}
import io.pillarbox.mailbox.{MailboxExecutor, ProcessingTimeService}

/**
 * Takes one element at a time from its first attempt to its rows: permits, deadlines, retries, failure
 * policy. Mailbox thread only. What may leave, and when, is not its business.
 *
 * @param finished
 *   called when an element has its rows
 * @param handler
 *   what a mail runs when attempts completed; it is to call `settleCompleted`, then `inbox.handled`
 */
private[async] final class CallDriver[IN, OUT](
    function: AsyncFunction[IN, OUT],
    options: AsyncOptions[IN, OUT],
    executor: MailboxExecutor,
    time: ProcessingTimeService,
    metrics: AsyncMetrics,
    finished: InFlightElement[IN, OUT] => Unit,
    handler: () => Unit
) {
  require(
    options.batching.isEmpty || function.isInstanceOf[BatchAsyncFunction[_, _]],
    s"Batches need a function that takes many inputs, which ${function.getClass.getName} does not"
  )

  val inbox: CompletionInbox = new CompletionInbox(executor, () => handler())

  private val gate = options.gate
  private val isGated = gate ne CallGate.Unlimited
  private val permits =
    new PermitLine[InFlightElement[IN, OUT]](gate, executor, isTooLate(_), start(_, gate))

  /** Null if each element is called by itself. */
  private val groups: GroupLine[IN, OUT] =
    options.batching.map(new GroupLine[IN, OUT](_, gate, executor, time, isTooLate(_), startGroup(_))).orNull
  private val retry = options.retry
  private val journal = options.journal.orNull
  private val shared = if (options.shareCalls) new SharedCalls[IN, OUT](call(_)) else null
  private val deadlines = new CallDeadlines[IN, OUT](options, time)

  def nanoTime: Long = time.nanoTime

  /** What the outside may know the call of an element by. Any thread. */
  def callIdOf(input: IN, elementId: Long): String = options.callId(input, elementId)

  /** Elements that are being called or wait for a retry: at most the capacity. */
  private var places = 0

  /** Elements that wait for the time of their next attempt. */
  private var backingOff = 0
  private var inputEnded = false

  /** Handed to the function before there was a place for them, in its order. */
  private val inLine = new util.ArrayDeque[InFlightElement[IN, OUT]]

  /** Takes a new element: it is answered from the journal, waits for a call under way, or is called. */
  def admit(element: InFlightElement[IN, OUT]): Unit =
    if (options.callKey.isEmpty) call(element)
    else {
      val key = options.callKey.get.apply(element.input)
      val known = if (journal eq null) null else journal.find(key)
      if (known ne null) answerWithoutCall(element, known)
      else {
        if (journal ne null) journal.willCall()
        element.keyed = new KeyedCall(key)
        if (shared eq null) call(element)
        else shared.join(element, this)
      }
    }

  private def answerWithoutCall(element: InFlightElement[IN, OUT], rows: util.Collection[OUT]): Unit = {
    metrics.journalHitCount += 1
    element.setResults(rows)
    element.phase = Finished
    finished(element)
    // By mail, so that it leaves after what the input is now in the middle of.
    inbox.runSoon()
  }

  /** The first attempt starts, or the function gets the element ahead and starts it in its turn. */
  private def call(element: InFlightElement[IN, OUT]): Unit =
    if (options.lookAhead > 0 && places >= options.capacity) {
      element.phase = InLine
      inLine.addLast(element)
      element.current = new CallAttempt(inbox, element, 1, null)
      invoke(element, element.current)
    } else {
      takePlace()
      request(element)
    }

  /** Whether another element can be called, or handed to the function ahead. */
  def hasPlace: Boolean = {
    val taken = if (shared eq null) places + inLine.size else shared.waiting
    taken < options.capacity + options.lookAhead
  }

  /** Nothing is admitted for a while: a group leaves as it is. */
  def inputPauses(): Unit = if ((groups ne null) && backingOff == 0) groups.send()

  /** Nothing is admitted any more; retries may still come. */
  def noMoreInput(): Unit = {
    inputEnded = true
    sendIfNoneComes()
  }

  /**
   * A group does not wait for company that can't come. (A call under way that fails may still bring some.)
   */
  private def sendIfNoneComes(): Unit = if ((groups ne null) && inputEnded && backingOff == 0) groups.send()

  private def takePlace(): Unit = {
    places += 1
    metrics.admitted()
  }

  private def leavePlace(): Unit = {
    places -= 1
    metrics.finished()
    while (places < options.capacity && !inLine.isEmpty) begin(inLine.pollFirst())
  }

  /** The function has begun, or is about to, with the element that was first in its line. */
  private def begin(element: InFlightElement[IN, OUT]): Unit = {
    takePlace()
    begun(element, element.current)
  }

  /** Starts an attempt, now or when there is a permit. */
  private def request(element: InFlightElement[IN, OUT]): Unit =
    if (isGated || (groups ne null)) {
      element.phase = Waiting
      deadlines.waits(element)
      if (groups eq null) permits.enter(element) else groups.enter(element)
    } else start(element, null)

  /**
   * Whether an element that waited needs no attempt any more. Once the total deadline has passed there is
   * none.
   */
  private def isTooLate(element: InFlightElement[IN, OUT]): Boolean =
    element.phase != Waiting || deadlines.isOver(element)

  private def start(element: InFlightElement[IN, OUT], permit: Permit): Unit =
    invoke(element, newAttempt(element, permit))

  private def newAttempt(element: InFlightElement[IN, OUT], permit: Permit): CallAttempt[IN, OUT] = {
    val attempt = new CallAttempt(inbox, element, element.attempts + 1, permit)
    element.current = attempt
    begun(element, attempt)
    attempt
  }

  private def startGroup(elements: util.List[InFlightElement[IN, OUT]]): Unit = {
    val permit = if (isGated) new SharedPermit(gate, elements.size) else null
    val inputs = new util.ArrayList[IN](elements.size)
    val futures = new util.ArrayList[ResultFuture[OUT]](elements.size)
    elements.forEach { element =>
      inputs.add(element.input)
      CallDriver.ignore(futures.add(newAttempt(element, permit)))
    }
    try function.asInstanceOf[BatchAsyncFunction[IN, OUT]].asyncInvokeBatch(inputs, futures)
    catch { case NonFatal(error) => futures.forEach(_.completeExceptionally(error)) }
  }

  private def begun(element: InFlightElement[IN, OUT], attempt: CallAttempt[IN, OUT]): Unit = {
    val now = time.nanoTime
    attempt.startNanos = now
    element.started(now)
    element.phase = Running
    metrics.callCount += 1
    if (element.attempts == 1 && isShared(element)) element.keyed.sharers.forEach(deadlines.joins(_))
    deadlines.begins(element, now, !isShared(element))
  }

  private def invoke(element: InFlightElement[IN, OUT], attempt: CallAttempt[IN, OUT]): Unit =
    try function.asyncInvoke(element.input, attempt)
    catch { case NonFatal(error) => attempt.completeExceptionally(error) }

  /** The element shares a call that is under way. */
  def joins(element: InFlightElement[IN, OUT]): Unit = deadlines.joins(element)

  /** Whether it is the carrier of a call. */
  private def isShared(element: InFlightElement[IN, OUT]): Boolean =
    (shared ne null) && (element.keyed.carrier eq element)

  /** Takes the answers that have come. An attempt that was abandoned is not among them. */
  def settleCompleted(): Unit =
    if (journal eq null) settleAll()
    else
      try settleAll()
      finally journal.flush()

  private def settleAll(): Unit = {
    var attempt = inbox.takeAll().asInstanceOf[CallAttempt[IN, OUT]]
    // Once for all: a reading of the clock costs as much as a turn of this loop.
    val now = time.nanoTime
    while (attempt ne null) {
      val following = attempt.next.asInstanceOf[CallAttempt[IN, OUT]]
      attempt.next = null
      if (attempt.element.phase == InLine) beginOutOfTurn(attempt.element)
      metrics.answered(math.max(0L, now - attempt.startNanos))
      settleOrKeepRest(attempt, following)
      attempt = following
    }
  }

  /** An answer of an element that is still in line here: the call could not even be handed over. */
  private def beginOutOfTurn(element: InFlightElement[IN, OUT]): Unit = {
    CallDriver.ignore(inLine.remove(element))
    begin(element)
  }

  /** A failure policy may throw; the answers behind it must not be lost if the caller carries on. */
  private def settleOrKeepRest(attempt: CallAttempt[IN, OUT], rest: CallAttempt[IN, OUT]): Unit =
    try settle(attempt)
    catch {
      case error: Throwable =>
        var kept = rest
        while (kept ne null) {
          val following = kept.next.asInstanceOf[CallAttempt[IN, OUT]]
          inbox.push(kept)
          kept = following
        }
        throw error
    }

  private def settle(attempt: CallAttempt[IN, OUT]): Unit = {
    val element = attempt.element
    if (attempt.isFailure) failed(element, attempt.error)
    else if (retry.checksResults && mayRetry(element) && retry.retryOnResult(rowsOf(attempt)))
      backOff(element, retry.backoffMs(element.attempts))
    else {
      if (journal ne null) keep(element, attempt)
      if (isShared(element)) answerSharers(element, attempt)
      else setAnswer(element, attempt)
      finish(element)
    }
  }

  /** What stands in for an answer, at the end of its time, is none. */
  private def keep(element: InFlightElement[IN, OUT], attempt: CallAttempt[IN, OUT]): Unit =
    if (!attempt.isStandIn) journal.keep(element.keyed.key, attempt.attempt, rowsOf(attempt))

  private def setAnswer(element: InFlightElement[IN, OUT], attempt: CallAttempt[IN, OUT]): Unit =
    if (attempt.isOneRow) element.setResult(attempt.row) else element.setResults(attempt.rows)

  private def answerSharers(carrier: InFlightElement[IN, OUT], attempt: CallAttempt[IN, OUT]): Unit =
    shared.decide(carrier) { element =>
      setAnswer(element, attempt)
      finish(element)
    }

  private def rowsOf(attempt: CallAttempt[IN, OUT]): util.Collection[OUT] =
    if (attempt.isOneRow) util.Collections.singletonList(attempt.row) else attempt.rows

  /** Once the total deadline has passed there is no further attempt, whatever the last one ends with. */
  private def mayRetry(element: InFlightElement[IN, OUT]): Boolean =
    retry.canRetry(element.attempts) && !deadlines.isOver(element)

  private def failed(element: InFlightElement[IN, OUT], error: Throwable): Unit = {
    val cause = FutureWrappers.unwrapped(error)
    if (mayRetry(element) && !cause.isInstanceOf[NotRetryable] && retry.retryOnException(cause))
      retryAfter(element, cause)
    else giveUp(element, error)
  }

  /** An exception that can't say when to come back fails the call itself. */
  private def retryAfter(element: InFlightElement[IN, OUT], cause: Throwable): Unit = {
    var unusable: Throwable = null
    val delayMs =
      try delayAfter(element, cause)
      catch {
        case NonFatal(problem) =>
          unusable = problem
          0L
      }
    if (unusable eq null) backOff(element, delayMs) else giveUp(element, unusable)
  }

  private def delayAfter(element: InFlightElement[IN, OUT], cause: Throwable): Long = cause match {
    case own: RetryAfter => math.max(0L, own.retryAfterMs)
    case _ => retry.backoffMs(element.attempts)
  }

  private def backOff(element: InFlightElement[IN, OUT], delayMs: Long): Unit = {
    metrics.retryCount += 1
    backingOff += 1
    element.current = null
    element.phase = BackingOff
    deadlines.backsOff(element, delayMs)
  }

  private def giveUp(element: InFlightElement[IN, OUT], error: Throwable): Unit =
    if (isShared(element)) {
      tellGaveUp(element)
      try
        shared.decide(element) { sharer =>
          sharer.attempts = element.attempts
          rowsOfFailure(sharer, error)
        }
      finally finish(element)
    } else {
      if (element.isCalled) tellGaveUp(element)
      rowsOfFailure(element, error)
    }

  private def rowsOfFailure(element: InFlightElement[IN, OUT], error: Throwable): Unit = {
    metrics.errorCount += 1
    var rows: util.Collection[OUT] = util.Collections.emptyList[OUT]()
    // The slot is freed even if the policy throws, as in Flink: what waits for room must not wait for
    // ever.
    try rows = rowsInstead(element, error)
    finally {
      element.setResults(rows)
      finish(element)
    }
  }

  private def rowsInstead(element: InFlightElement[IN, OUT], error: Throwable): util.Collection[OUT] = {
    val callId = (if (element.isCalled) element else element.keyed.carrier).callId
    val call = FailedCall(element.input, element.attempts, element.elapsedMs, callId)
    val rows = options.onFailure.onFailure(call, error)
    if (rows eq null)
      throw new NullPointerException(
        "The failure policy returned null: return an empty collection to emit nothing."
      )
    rows
  }

  private def finish(element: InFlightElement[IN, OUT]): Unit = {
    element.phase = Finished
    element.current = null
    deadlines.cancel(element)
    if (element.isCalled) leavePlace() else if (shared.leave(element)) drop(element.keyed.carrier)
    if (!isShared(element)) finished(element)
  }

  /** A call that nobody waits for any more is cancelled. */
  private def drop(carrier: InFlightElement[IN, OUT]): Unit = {
    val attempt = carrier.current
    // An answer that has come all the same is taken, and kept.
    if ((attempt eq null) || attempt.abandon()) {
      val hasPlace = carrier.phase != InLine
      if (carrier.phase == Waiting || carrier.phase == BackingOff) leaveWait(carrier)
      shared.end(carrier.keyed)
      CallDriver.ignore(inLine.remove(carrier))
      carrier.phase = Finished
      deadlines.cancel(carrier)
      if (attempt ne null) tellCancelled(carrier, attempt)
      tellGaveUp(carrier)
      if (hasPlace) leavePlace()
    }
  }

  /** The timer of the element has fired. What this finishes is emitted by the next mail. */
  def onDeadline(element: InFlightElement[IN, OUT]): Unit = if (element.phase != Finished)
    try decideDeadline(element)
    finally if (element.phase == Finished) inbox.runSoon()

  private def decideDeadline(element: InFlightElement[IN, OUT]): Unit = {
    val now = time.currentProcessingTime
    if (now >= element.totalDeadlineMs) onTotalTimeout(element)
    else if (now < element.phaseEndMs) deadlines.schedule(element)
    else if (element.phase == BackingOff) {
      backingOff -= 1
      request(element)
      sendIfNoneComes()
    } else if (element.phase == Running) onAttemptTimeout(element)
  }

  private def onAttemptTimeout(element: InFlightElement[IN, OUT]): Unit = {
    val attempt = element.current
    val elapsedMs = (time.nanoTime - attempt.startNanos) / 1000000L
    val timeout = AsyncTimeoutException.attempt(attempt.attempt, elapsedMs)
    // An answer that won is on its way to settle, and decides.
    if (attempt.abandon(timeout)) {
      metrics.timeoutCount += 1
      tellCancelled(element, attempt)
      failed(element, timeout)
    }
  }

  /**
   * The function decides what becomes of the element, through the future of the attempt under way: so an
   * answer that comes first wins, and one that comes later is dropped. Between attempts there is none, and it
   * gets a fresh one.
   */
  private def onTotalTimeout(element: InFlightElement[IN, OUT]): Unit = {
    val wasRunning = element.phase == Running
    if (!wasRunning) {
      leaveWait(element)
      element.current = new CallAttempt(inbox, element, element.attempts, null)
      element.current.startNanos = time.nanoTime
      element.current.isStandIn = true
    }
    val attempt = element.current
    if (!attempt.isDone) {
      metrics.timeoutCount += 1
      attempt.overdue = AsyncTimeoutException.total(attempt.attempt, element.elapsedMs)
      try function.timeout(element.input, attempt)
      catch { case NonFatal(error) => attempt.completeExceptionally(error) }
      if (attempt.isDone) {
        attempt.isStandIn = true
        if (wasRunning) tellCancelled(element, attempt)
        if (element.isCalled) tellGaveUp(element)
      }
    }
  }

  /** It waits no more, for a permit or for its next attempt. */
  private def leaveWait(element: InFlightElement[IN, OUT]): Unit = {
    val phase = element.phase
    element.phase = Running
    if (phase == Sharing) ()
    else if (phase == BackingOff) {
      backingOff -= 1
      sendIfNoneComes()
    } else if (groups ne null) groups.prune()
    else permits.prune()
  }

  /** Cancelling is a courtesy to the function; if that fails, the element is decided all the same. */
  private def tellCancelled(element: InFlightElement[IN, OUT], attempt: CallAttempt[IN, OUT]): Unit =
    try function.cancel(element.input, attempt)
    catch { case NonFatal(error) => CallDriver.log.warn("Could not cancel {}", attempt, error) }

  private def tellGaveUp(element: InFlightElement[IN, OUT]): Unit = function match {
    case lender: LookAheadFunction[_, _] =>
      try lender.gaveUp(element.elementId)
      catch { case NonFatal(error) => CallDriver.log.warn("Could not give up {}", element.elementId, error) }
    case _ => ()
  }

  /** Abandons the element: its call is cancelled, its permit and timer given back. */
  def abandon(element: InFlightElement[IN, OUT]): Unit = if (element.phase != Finished) {
    deadlines.cancel(element)
    val attempt = element.current
    if ((attempt ne null) && attempt.abandon()) tellCancelled(element, attempt)
    if (element.phase != InLine && element.isCalled) metrics.finished()
    element.phase = Finished
  }

  def close(): Unit = {
    if (shared ne null) shared.endAll(abandon(_))
    inLine.clear()
    if (groups ne null) groups.close()
    permits.close()
  }
}

private[async] object CallDriver {
  def ignore(@unused value: Boolean): Unit = ()

  private val log = org.slf4j.LoggerFactory.getLogger(classOf[AsyncWaitOperator[_, _]])
}
