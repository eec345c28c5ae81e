package io.pillarbox.async

import java.util.concurrent.ThreadLocalRandom

import io.pillarbox.async.queue.{AsyncOutput, StreamElementQueueEntry}
import io.pillarbox.mailbox.ProcessingTimer
import io.pillarbox.metered.journal.{CallKey, CallTicket}
import io.pillarbox.metered.limit.Permit
import io.pillarbox.metered.usage.{Usage, UsageUnits}

/**
 * A record from when it is taken in until its rows are known. Mailbox thread only, but for `elapsedMs`,
 * `callId` and `usage`.
 */
private[async] sealed class InFlightElement[IN, OUT](
    pipeline: CallPipeline[IN, OUT],
    val elementId: Long,
    input: IN,
    timestampMs: Long
) extends StreamElementQueueEntry[IN, OUT](input, timestampMs) {
  import InFlightElement._

  /** The last stage that it has come to; null before the first stage and after the end. */
  var at: Stage[IN, OUT] = _

  /** Attempts made so far. */
  var attempts: Int = 0

  /** The attempt whose answer counts, if there is one. */
  var current: CallAttempt[IN, OUT] = _

  /** Names the call, if its options need that; else null. */
  var key: CallKey = _

  /** The call that it shares with others, or null. */
  var share: SharedCall[IN, OUT] = _

  /** The permit of its next attempt, until that takes it over; or null. */
  var permit: Permit = _

  private var held: Held[IN, OUT] = _

  /** Takes note of something that it holds until it is over. */
  def hold(holding: Holding[IN, OUT]): Unit =
    held = if (held eq null) holding.alone else new Held(holding, held)

  def holds(holding: Holding[IN, OUT]): Boolean = (held ne null) && held.has(holding)

  /** Takes something off the list; false if it does not hold it. */
  def drop(holding: Holding[IN, OUT]): Boolean = {
    val isHeld = holds(holding)
    if (isHeld) held = held.without(holding)
    isHeld
  }

  /** Gives all back, the last first. */
  def giveBackAll(): Unit = {
    if (permit ne null) {
      permit.unused()
      permit = null
    }
    while (held ne null) {
      val last = held.last
      held = held.rest
      last.giveBack(this)
    }
  }

  /**
   * Attempts of those made that don't count for retries: they ended in a pause of the whole limit, or one after
   * them was given a ticket.
   */
  var pauses: Int = 0

  /** Its ticket, or that one was given up; null if it has had none. */
  var ticket: CallTicket = _

  /** How many of its tickets were given up in runs before this one. */
  var roundsBefore: Int = 0

  /** How many had been given up when its last attempt began. */
  @volatile private var calledRound = 0

  /** Those that it was submitted with, together, when that failed; null otherwise. */
  var submission: CallGroup[IN, OUT] = _

  /** True if it was submitted, and its next attempts collect the answer. */
  def hasTicket: Boolean = (ticket ne null) && ticket.isOut

  /** What attempts have reported that ended with its ticket, or without an answer yet; null for nothing. */
  var carried: Usage = _

  def carry(reported: Usage): Unit = if (reported ne null) {
    if (carried eq null) carried = new Usage(units)
    carried.addAll(reported)
  }

  def ticketRound: Int = if (ticket eq null) 0 else ticket.round

  /** The number of its next attempt. */
  def nextAttempt: Int = attempts + 1 - pauses

  /** True if it is called in place of the elements that share the call, and is not in the queue. */
  def isCarrier: Boolean = (share ne null) && (share.carrier eq this)

  /** True if no attempt may begin any more, since the total deadline has passed. */
  def isOverdue: Boolean = totalDeadlineMs != Never && pipeline.time.currentProcessingTime >= totalDeadlineMs

  /** True if it waits for an attempt that may still begin. */
  def isWanted: Boolean = (at ne null) && ((current eq null) || current.isAhead) && !isOverdue

  /** Does something with each element that the call is for. */
  def each(action: InFlightElement[IN, OUT] => Unit): Unit = action(this)

  /** Written once, before the first future is handed out unless it was handed out ahead. */
  private var firstStartNanos: Long = NotStarted

  /** Made when first needed: most elements wait for nothing but their answer. */
  private var deadlines: Deadlines = _

  /** The amounts that its attempts have reported; null for none. */
  @volatile private var reported: Usage = _

  /** What all its attempts have reported so far; null if nothing was. Any thread. */
  def usage: Usage = reported

  def units: UsageUnits = pipeline.options.units

  /** Returns what counts of a report, and tells what is wrong with it: that must not fail the call. */
  def counted(unit: String, amount: Double): Double = {
    val isAmount = UsageUnits.isAmount(amount)
    if (!isAmount || !units.names.contains(unit)) pipeline.options.oddReport(unit, amount)
    if (isAmount) amount else 0.0
  }

  /** Adds to what it has used, and to the operator's sum. Any thread. */
  def used(unit: String, amount: Double): Unit = {
    synchronized {
      if (reported eq null) reported = new Usage(units)
    }
    reported.add(unit, amount)
    pipeline.metrics.usage.add(unit, amount)
  }

  /** Any thread. */
  def callId: String = pipeline.options.callId(input, elementId, calledRound)

  def elapsedMs: Long = if (hasStarted) (pipeline.time.nanoTime - firstStartNanos) / 1000000L else 0L

  /** True once an attempt has begun. */
  def hasStarted: Boolean = firstStartNanos != NotStarted

  def started(nanos: Long): Unit = {
    if (!hasStarted) firstStartNanos = nanos
    calledRound = ticketRound
    attempts += 1
  }

  def totalDeadlineMs: Long = if (deadlines eq null) Never else deadlines.totalMs

  /** The end of this phase: the attempt's deadline, or the time of the next attempt. */
  def phaseEndMs: Long = if (deadlines eq null) Never else deadlines.phaseEndMs

  def setTotalDeadline(ms: Long): Unit = orMakeDeadlines().totalMs = ms

  def setPhaseEnd(ms: Long): Unit =
    if (ms != Never) orMakeDeadlines().phaseEndMs = ms
    else if (deadlines ne null) deadlines.phaseEndMs = Never

  private def orMakeDeadlines(): Deadlines = {
    if (deadlines eq null) deadlines = new Deadlines
    deadlines
  }

  /** The one timer of the element, for the earlier of its deadlines; null as long as it has had none. */
  def timerOrNull: ProcessingTimer = deadlines

  private final class Deadlines extends ProcessingTimer {
    var totalMs: Long = Never
    var phaseEndMs: Long = Never

    override def onProcessingTime(timestampMs: Long): Unit = pipeline.onDeadline(InFlightElement.this)
  }
}

private[async] object InFlightElement {
  final val Never = Long.MaxValue
  private final val NotStarted = Long.MinValue
}

/**
 * Elements that are called together: behind the stage that gathers them, they are one call. Mailbox thread
 * only.
 */
private[async] final class CallGroup[IN, OUT](pipeline: CallPipeline[IN, OUT])
    extends InFlightElement[IN, OUT](pipeline, -1L, null.asInstanceOf[IN], AsyncOutput.NoTimestamp) {
  import InFlightElement.Never

  val members = new java.util.ArrayList[InFlightElement[IN, OUT]]

  /** The random number of the members' back-offs: those that fail together come back together. */
  lazy val draw: Double = ThreadLocalRandom.current().nextDouble()

  private var firstFailure = Never

  /** The moment of `nanoTime` at which the first of them failed: `now` for that one. */
  def failedAt(now: Long): Long = {
    if (firstFailure == Never) firstFailure = now
    firstFailure
  }

  private var isRefused = false

  /** True when it is asked for the first time. */
  def isFirstRefusal: Boolean = {
    val isFirst = !isRefused
    isRefused = true
    isFirst
  }

  override def each(action: InFlightElement[IN, OUT] => Unit): Unit = members.forEach(one => action(one))

  /** Drops the members that need no attempt any more; true if any is left. */
  override def isWanted: Boolean = {
    members.removeIf(!_.isWanted): Unit
    !members.isEmpty
  }
}

/**
 * Something that calls hold until they are over, and that gives itself back: a slot, a key, a budget's charge.
 * One object may be held by many calls, each once. Mailbox thread only.
 */
private[async] abstract class Holding[IN, OUT] {

  /** The list of a call that holds nothing else: most hold one thing, and need no list of their own. */
  private[async] final val alone: Held[IN, OUT] = new Held(this, null)

  /** Takes it back from a call that is over, and no longer has it on its list. */
  def giveBack(call: InFlightElement[IN, OUT]): Unit
}

/** What a call holds: the last that it took, and the rest, null for none. */
private[async] final class Held[IN, OUT](val last: Holding[IN, OUT], val rest: Held[IN, OUT]) {

  /** Returns the list without one that is on it. */
  def without(holding: Holding[IN, OUT]): Held[IN, OUT] =
    if (last eq holding) rest else new Held(last, rest.without(holding))

  def has(holding: Holding[IN, OUT]): Boolean =
    (last eq holding) || ((rest ne null) && rest.has(holding))
}
