package io.pillarbox.async

import java.util

import scala.util.control.NonFatal

import io.pillarbox.api.AsyncFunction
import io.pillarbox.async.retry.{AsyncRetryStrategies, FailedCall}
import io.pillarbox.mailbox.{MailboxExecutor, ProcessingTimeService}
import io.pillarbox.metered.budget.BudgetExceededException
import io.pillarbox.metered.usage.CallAccount

/**
 * The pipeline of calls, a row of [[Stage]]s: made once, of those stages that the options need.
 *
 * A call goes from the first stage to the last. The end of an attempt goes the way back, from the stage that
 * the call stands at, until a stage takes it; else it comes out, as the rows of its element. Then what the call
 * holds is given back, the last first. The queues decide what may leave the operator, and when. Mailbox thread
 * only.
 *
 * @param finished called when an element has its rows
 * @param handler runs in a mail when attempts completed; it is to call `settleCompleted`, then
 *   `inbox.handled`
 */
private[async] final class CallPipeline[IN, OUT](
    val function: AsyncFunction[IN, OUT],
    val options: AsyncOptions[IN, OUT],
    val executor: MailboxExecutor,
    val time: ProcessingTimeService,
    val metrics: AsyncMetrics,
    finished: InFlightElement[IN, OUT] => Unit,
    handler: () => Unit
) {
  private type Call = InFlightElement[IN, OUT]
  private type Attempt = CallAttempt[IN, OUT]

  require(
    options.batching.isEmpty || function.isInstanceOf[BatchAsyncFunction[_, _]],
    s"Batches need a function that takes many inputs, which ${function.getClass.getName} does not"
  )

  require(
    options.ticketing.isEmpty || function.isInstanceOf[TicketedFunction[_, _]],
    s"Tickets need a function that collects answers, which ${function.getClass.getName} does not"
  )

  val inbox: CompletionInbox = new CompletionInbox(executor, () => handler())
  val deadlines: CallDeadlines[IN, OUT] = new CallDeadlines(options, time)

  private val callKey = options.callKey.orNull
  private val journal = options.journal.orNull
  private val budget = options.budget.orNull
  private val ticketing = options.ticketing.orNull
  private val accounted = options.accounted.orNull
  private val answered =
    if ((journal ne null) && options.roomForKeys > 0) new Answered(this, journal) else null
  private val knownTickets = if (ticketing ne null) new KnownTickets[IN, OUT](ticketing.journal) else null
  private val charges = if (budget ne null) new BudgetCharges(this, budget) else null
  private val isGrouped = options.batching.isDefined || (ticketing ne null)
  private val admission = new Admission[IN, OUT](
    this,
    options.keyed.filter(_.callsPerKey > 0).orNull,
    hasSlots = true,
    charges,
    isLimited = options.isLimited && !isGrouped,
    isKnown(_)
  )
  private val attempts = new Attempts(this)
  private val stages: Array[Stage[IN, OUT]] = Array(
    when(journal ne null)(new Answered(this, journal)),
    when(options.shareCalls)(new Shared(this)),
    // Behind the calls that are shared, for what is answered while it waits for others of its key.
    Option(answered),
    when(journal ne null)(new Kept(journal)),
    // A pause of a limit is no attempt, so it needs no retry of the user's.
    when((options.retry ne AsyncRetryStrategies.noRetry[OUT]) || options.isLimited)(new Retries(this)),
    // Before the budget, which has charged for them.
    Option(knownTickets),
    Some(admission),
    when(ticketing ne null)(new Tickets(this, ticketing)),
    options.batching.map(new Batches(this, _)),
    // A list of elements is one call for the limits.
    when(isGrouped && options.isLimited)(
      new Admission(this, null, hasSlots = false, charges, isLimited = true, _ => false)
    ),
    Some(attempts)
  ).flatten
  stages.zip(stages.drop(1)).foreach { case (stage, next) => stage.goesOnTo(next) }
  private val first = stages.head

  private var inputEnded = false
  private var unsettled: CallAttempt[_, _] = _

  private def when(isNeeded: Boolean)(stage: => Stage[IN, OUT]) = Option.when(isNeeded)(stage)

  /** Looks up again what may have come from other calls while this one has waited for them. */
  private def isKnown(call: Call): Boolean = {
    if (knownTickets ne null) knownTickets.find(call)
    (answered ne null) && answered.answers(call)
  }

  /** Takes a new element. */
  def admit(call: Call): Unit = {
    if (callKey ne null) call.key = callKey(call.input)
    call.at = first
    first.enter(call)
  }

  /** The number of elements that wait for their key or its limit; they don't count into the capacity. */
  def waitingForKey: Int = admission.waitingForKey

  /** True if another element may be taken in. */
  def hasRoom: Boolean = !admission.isFull

  /** Tells that nothing is admitted for a while: incomplete groups that can't grow go on as they are. */
  def inputPauses(): Unit = stages.forall(_.inputPauses()): Unit

  /** Tells that nothing is admitted any more; retries, and others of a key, may still come. */
  def noMoreInput(): Unit = {
    inputEnded = true
    inputPauses()
  }

  /** Takes the answers that have come, without those of abandoned attempts. */
  def settleCompleted(): Unit =
    try {
      settleAll()
      if (inputEnded) inputPauses()
    } finally flush()

  private def flush(): Unit = {
    // First what was paid for, and is not known elsewhere.
    if (ticketing ne null) ticketing.journal.flush()
    if (journal ne null) journal.flush()
  }

  private def settleAll(): Unit = {
    // Answers that are left from a failure policy that threw come first.
    if (unsettled eq null) unsettled = inbox.takeAll()
    // One reading of the clock for all: it costs as much as a turn of this loop.
    val now = time.nanoTime
    while (unsettled ne null) {
      val attempt = unsettled.asInstanceOf[Attempt]
      unsettled = attempt.next
      attempt.next = null
      if (!attempt.hasBegun && !attempt.isStandIn) attempt.element.at.due(attempt.element)
      if (attempt.hasBegun && !attempt.isPoll) metrics.answered(math.max(0L, now - attempt.startNanos))
      settle(attempt)
    }
  }

  /** True if answers have come that are not settled. */
  def hasCompleted: Boolean = (unsettled ne null) || inbox.hasCompleted

  /** Sends the end of an attempt the way back. */
  def settle(attempt: Attempt): Unit = {
    val call = attempt.element
    if (attempt.isFailure && attempt.hasBegun && options.isRateLimit(attempt.error)) countRefusal(attempt)
    var stage = call.at
    while ((stage ne null) && stage.ended(call, attempt)) stage = stage.before
    if (stage eq null) out(call, attempt)
  }

  /** Counts a call that the service refused, that of a list once. */
  private def countRefusal(attempt: Attempt): Unit =
    if ((attempt.group eq null) || attempt.group.isFirstRefusal) metrics.rateLimited += 1

  /** Gives the element its rows: those of the attempt, or the policy's in the place of its failure. */
  def out(call: Call, attempt: Attempt): Unit =
    try {
      if (budget ne null) tellBudget(attempt)
      if (attempt.isFailure) {
        if (!isPending(attempt)) metrics.errors += 1
        // It is decided even if the policy throws, as in Flink: what waits for room must not wait for ever.
        call.setResults(util.Collections.emptyList[OUT]())
        call.setResults(withAccount(call, attempt, rowsInstead(call, attempt.error)))
      } else if (accounted eq null) attempt.answer(call)
      else call.setResults(withAccount(call, attempt, attempt.rows))
    } finally {
      leave(call)
      finished(call)
    }

  /** Counts rows that were called for. */
  private def tellBudget(attempt: Attempt): Unit = {
    val isCalled =
      if (attempt.isFailure) !attempt.error.isInstanceOf[BudgetExceededException] && !isPending(attempt)
      else attempt.isAnswer
    if (isCalled) budget.rowEnded(attempt.isFailure)
  }

  /** True if the call goes on without its element. */
  private def isPending(attempt: Attempt): Boolean = attempt.error.isInstanceOf[PendingException]

  private def rowsInstead(call: Call, error: Throwable): util.Collection[OUT] = {
    val failed = FailedCall(call.input, madeFor(call).attempts, call.elapsedMs, madeFor(call).callId)
    val rows = options.onFailure.onFailure(failed, error)
    if (rows eq null)
      throw new NullPointerException(
        "The failure policy returned null: return an empty collection to emit nothing."
      )
    rows
  }

  /** The element that a call is made for: itself, or the carrier of the call that it shares. */
  private def madeFor(call: Call): Call = if (call.share eq null) call else call.share.carrier

  private def withAccount(call: Call, attempt: Attempt, rows: util.Collection[OUT]): util.Collection[OUT] =
    if (accounted eq null) rows
    else {
      val made = madeFor(call)
      val isKnown = attempt.isStandIn && made.attempts == 0 && !attempt.isFailure
      val pays = (call.share eq null) || call.share.pays()
      val (attempts, usage) = if (pays) (made.attempts, made.usage) else (0, null)
      accounted(CallAccount(made.callId, attempts, call.elapsedMs, isKnown, usage), rows)
    }

  /** Ends the call. */
  def leave(call: Call): Unit = {
    deadlines.cancel(call)
    val stood = call.at
    call.at = null
    if (stood ne null) stood.withdraw(call)
    call.giveBackAll()
    call.current = null
  }

  /** Cancels a call that no element waits for. An answer that has come all the same is taken, and kept. */
  def cancel(call: Call): Unit = if (attempts.stop(call)) leave(call)

  /** Ends the call, if it is not over, when the operator is closed. */
  def abandon(call: Call): Unit = if (call.at ne null) {
    attempts.stop(call): Unit
    leave(call)
  }

  /** Handles the timer of the call. The next mail emits what this finishes. */
  def onDeadline(call: Call): Unit = if (call.at ne null)
    try {
      val now = time.currentProcessingTime
      if (now >= call.totalDeadlineMs) attempts.overdue(call)
      else if (now < call.phaseEndMs) deadlines.schedule(call)
      else call.at.due(call)
      if (inputEnded) inputPauses()
    } finally if (call.at eq null) inbox.runSoon()

  /**
   * Keeps the answers and tickets that have come, and closes from the last stage to the first, so that
   * nothing goes on as calls are given up.
   */
  def close(): Unit = {
    if ((journal ne null) || (ticketing ne null))
      try keepUnsettled()
      catch {
        case NonFatal(error) => CallPipeline.log.warn("Could not keep what has come at the end", error)
      }
    stages.reverseIterator.foreach(_.close())
  }

  private def keepUnsettled(): Unit =
    try
      while ((unsettled ne null) || inbox.hasCompleted) {
        if (unsettled eq null) unsettled = inbox.takeAll()
        val attempt = unsettled.asInstanceOf[Attempt]
        unsettled = attempt.next
        attempt.next = null
        if (attempt.element.at ne null) stages.foreach(_.keep(attempt.element, attempt))
      }
    finally flush()
}

private[async] object CallPipeline {
  private[async] val log = org.slf4j.LoggerFactory.getLogger(classOf[AsyncWaitOperator[_, _]])
}
