package io.pillarbox.async

import java.util

import io.pillarbox.api.RetryAfter
import io.pillarbox.async.retry.{AsyncRetryStrategies, AsyncRetryStrategy, FailurePolicy}
import io.pillarbox.metered.budget.BudgetPart
import io.pillarbox.metered.journal.{CallJournal, CallKey}
import io.pillarbox.metered.limit.Limiter
import io.pillarbox.metered.usage.{CallAccount, UsageUnits}

/**
 * The figures of an operator, which its user gives; in Spark they are read from JSON. 0 stands for none, and
 * [[AsyncOptions]] says what each means.
 *
 * @param callsPerKey see [[Keyed]]
 */
private[pillarbox] final case class CallFigures(
    ordered: Boolean,
    capacity: Int,
    maxWaiting: Int,
    totalTimeoutMs: Long,
    attemptTimeoutMs: Long,
    batching: Option[Batching],
    callsPerKey: Int
) {

  /** The options with these figures, and all else as by default. */
  def options[IN, OUT]: AsyncOptions[IN, OUT] = AsyncOptions(
    ordered,
    capacity,
    totalTimeoutMs,
    attemptTimeoutMs,
    batching = batching,
    maxWaiting = maxWaiting
  )
}

/**
 * The options of an [[AsyncWaitOperator]].
 *
 * The clocks of both deadlines start with an element's first call: waiting for a permit of the limiter before it
 * does not count, nor waiting for a batch to fill. The time between two attempts counts into the total
 * deadline only.
 *
 * @param lookAhead elements more that the function is given before there is room for their calls, which it
 *   starts by itself as others end; see [[AsyncFunction]]. Then `capacity` bounds the calls under way, with
 *   those that wait for a retry
 * @param ordered true if rows leave in the order of their inputs; otherwise they leave as answers come
 * @param capacity elements of one operator that are in flight or done and not yet emitted
 * @param maxWaiting if not 0, `capacity` bounds the calls under way alone, with those that wait for a retry,
 *   and this many elements may be taken in and not yet emitted, most of them done and waiting for their turn
 * @param keyed set if the elements have keys: the order holds within a key, and calls of a key may be limited
 * @param totalTimeoutMs the time for an element with all its attempts and the waits between them; 0 for none
 * @param attemptTimeoutMs the time for one attempt, whose failure may be retried; 0 for none
 * @param valueLimiters limits of which some hold for each value of a key by itself; then they are all, and there
 *   is no `limiter`
 * @param charges what a call of these inputs is charged with before it begins, in each limit of the limiter,
 *   which is then one of several; what it throws is the failure of the call. Mailbox thread
 * @param batching gathers elements if the function is a [[BatchAsyncFunction]] that is to be called with many
 * @param callKey names the call of an input; inputs with one key have the same answer
 * @param journal answers an input without a call, slot or permit, if it has the key's rows
 * @param shareCalls inputs whose keys are equal, and that are in flight together, share one call. Each keeps
 *   its own total deadline, whose clock starts with the call or, if that is under way, when the input is
 *   taken in
 * @param budget counts attempts and what they use, and failed rows; once it is spent calls fail without one
 * @param ticketing set if the function is a [[TicketedFunction]], whose calls may be answered hours later: they
 *   keep their in-flight slots, and hold no permit meanwhile
 * @param accounted makes the rows that leave, of those of the answer or the policy, and the call's account
 * @param isRateLimit tells of a failure if the service refused the attempt, to be asked later
 * @param operatorName the name that the function is told
 * @param units in which calls report what they use
 * @param oddReport is told of a report of another unit, or of no amount. Any thread
 * @param callId the idempotency key of the call of an input, which has this element id, after so many tickets
 *   that were given up; any thread
 * @throws IllegalArgumentException if a number is out of range, or the total timeout is shorter than an
 *   attempt's
 */
private[pillarbox] final case class AsyncOptions[IN, OUT](
    ordered: Boolean,
    capacity: Int,
    totalTimeoutMs: Long = 0L,
    attemptTimeoutMs: Long = 0L,
    retry: AsyncRetryStrategy[OUT] = AsyncRetryStrategies.noRetry[OUT],
    onFailure: FailurePolicy[IN, OUT] = FailurePolicy.failTask[IN, OUT],
    limiter: Limiter = Limiter.Unlimited,
    valueLimiters: Option[ValueLimiters[IN]] = None,
    charges: Option[util.List[IN] => Array[Double]] = None,
    lookAhead: Int = 0,
    batching: Option[Batching] = None,
    maxWaiting: Int = 0,
    keyed: Option[Keyed[IN]] = None,
    callKey: Option[IN => CallKey] = None,
    journal: Option[CallJournal[OUT]] = None,
    shareCalls: Boolean = false,
    budget: Option[BudgetPart] = None,
    ticketing: Option[Ticketing] = None,
    accounted: Option[(CallAccount, util.Collection[OUT]) => util.Collection[OUT]] = None,
    isRateLimit: Throwable => Boolean = _.isInstanceOf[RetryAfter],
    operatorName: String = "",
    units: UsageUnits = UsageUnits.None,
    oddReport: (String, Double) => Unit = (_: String, _: Double) => (),
    callId: (IN, Long, Int) => String = (_: IN, elementId: Long, _: Int) => elementId.toString
) {
  require(
    callKey.isDefined || (journal.isEmpty && !shareCalls && ticketing.isEmpty),
    "A journal, tickets, and calls that are shared, need a key of each call"
  )
  require(
    valueLimiters.isEmpty || ((limiter eq Limiter.Unlimited) && batching.isEmpty),
    "Limits that have a key are all limits of the operator, and a batch has no one value of the key"
  )
  require(
    valueLimiters.isEmpty || ticketing.isEmpty,
    "The elements of a ticket have no one value of the key of a limit"
  )
  require(capacity > 0, s"The capacity must be positive, not $capacity")
  require(lookAhead >= 0, s"The look-ahead must not be negative, but is $lookAhead")
  require(
    lookAhead == 0 || !isLimited && budget.isEmpty && batching.isEmpty && ticketing.isEmpty &&
      keyed.forall(_.callsPerKey == 0),
    "There is no look-ahead behind a limiter, with a budget, batches, tickets or a limit of calls a key: a " +
      "call that is given ahead starts at once"
  )
  require(
    maxWaiting == 0 || maxWaiting >= capacity + lookAhead,
    s"The elements that may wait, $maxWaiting, must not be fewer than the capacity, $capacity, and the " +
      s"look-ahead, $lookAhead"
  )
  require(totalTimeoutMs >= 0, s"The timeout must be positive, or 0 for none, not $totalTimeoutMs ms")
  require(
    attemptTimeoutMs >= 0,
    s"The attempt timeout must be positive, or 0 for none, not $attemptTimeoutMs ms"
  )
  require(
    totalTimeoutMs == 0 || attemptTimeoutMs <= totalTimeoutMs,
    s"The timeout of all attempts, $totalTimeoutMs ms, is shorter than that of one attempt, " +
      s"$attemptTimeoutMs ms"
  )

  /** The number of elements that may be taken in and not yet emitted, beside `roomForKeys`. */
  def room: Int = if (maxWaiting > 0) maxWaiting else capacity + lookAhead

  /** True if calls need permits. */
  def isLimited: Boolean = (limiter ne Limiter.Unlimited) || valueLimiters.isDefined

  /** The number of elements that may wait until a call of their key may begin, or until its limit allows it. */
  def roomForKeys: Int =
    (if (keyed.exists(_.callsPerKey > 0)) roomOfKeys else 0) + (if (valueLimiters.isDefined) roomOfEach
                                                                else 0)

  /** The number of those that may wait until a call of their key may begin. */
  private[async] def roomOfKeys: Int = keyed.flatMap(_.mostWaiting).getOrElse(roomOfEach)

  /** The number of those that may wait for one of the two. */
  private[async] def roomOfEach: Int = math.max(capacity, AsyncOptions.LeastRoomForKeys)
}

/**
 * The keys of elements.
 *
 * @param keyOf returns the key of an input; equal keys are equal objects. Mailbox thread
 * @param callsPerKey elements of a key that are called, or wait for a retry, at a time; 0 for no limit.
 *   Others wait outside of the capacity, up to [[AsyncOptions.roomForKeys]], and that counts into no deadline
 * @param mostWaiting the number of those, if it is not that of [[AsyncOptions]]
 */
private[pillarbox] final case class Keyed[IN](
    keyOf: IN => AnyRef,
    callsPerKey: Int,
    mostWaiting: Option[Int] = None
) {
  require(callsPerKey >= 0, s"The calls a key must be positive, or 0 for no limit, not $callsPerKey")
}

/**
 * All limits of an operator, of which some hold for each value of a key by itself. Calls that wait for such a
 * limit stand outside of the capacity, up to [[AsyncOptions.roomForKeys]]. Mailbox thread.
 */
private[pillarbox] trait ValueLimiters[IN] {

  /** Returns the values of an input that choose its limits; equal values are equal objects. */
  def valueOf(input: IN): AnyRef

  /** Returns the limits of calls with these values, to be closed when there is none any more. */
  def open(value: AnyRef): ValueLimiter
}

/** The limits of calls with certain values of a key. Closed when all permits have been given back. */
private[pillarbox] trait ValueLimiter extends AutoCloseable {
  def limiter: Limiter
  override def close(): Unit
}

private[pillarbox] object AsyncOptions {

  /** Leaves room so that a few keys with many elements each don't keep others from being called. */
  private final val LeastRoomForKeys = 4096
}
