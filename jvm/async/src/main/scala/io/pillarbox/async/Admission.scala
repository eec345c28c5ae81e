package io.pillarbox.async

import java.util
import java.util.concurrent.RejectedExecutionException

import scala.util.control.NonFatal

/**
 * Lets a call go on once all that it needs is there, and takes that in one step: its key, a slot of those in
 * flight, a charge of the budget and a permit of the limits. A call that lacks one of them waits with none: so
 * none is kept from others, and no order of them can lock. Only a call that is tried again has its key.
 *
 * A call comes to the front of its key's queue, then to that of its limits. The first there waits at the limiter
 * for a permit, or in `ready` for a slot or the budget. What it waited for comes, and all is asked for again.
 * Mailbox thread only.
 *
 * @param keyed the keys whose calls are limited, or null
 * @param hasSlots true if calls take slots here
 * @param budget charges attempts, or null
 * @param isLimited true if attempts take permits here
 * @param isKnown answers a call that waited for others if the answer has come with theirs; true if it did
 */
private[async] final class Admission[IN, OUT](
    pipeline: CallPipeline[IN, OUT],
    keyed: Keyed[IN],
    hasSlots: Boolean,
    budget: BudgetCharges[IN, OUT],
    isLimited: Boolean,
    isKnown: InFlightElement[IN, OUT] => Boolean
) extends Stage[IN, OUT] {
  private type Queue = LimitQueue[IN, OUT]

  private val options = pipeline.options
  private val keys = if (keyed ne null) new KeyQueues[IN, OUT](keyed, isKnown, comes(_)) else null
  private val limits = new LimitQueues[IN, OUT](pipeline, isLimited, isKnownHere(_), queue => granted(queue))

  /** A slot, of as many as the capacity: of a call under way, or that waits for a retry or a ticket. */
  private val slot: Holding[IN, OUT] = call => {
    inUse -= 1
    pipeline.metrics.finished()
    tellUnanswered(call)
    serve()
  }
  private var inUse = 0

  /** True if calls are counted while they wait for a slot; those that the function has ahead are not. */
  private val countsWaiting = options.lookAhead == 0

  /** The function if it keeps slots of its own, null once it is about to be closed. */
  private var lender = pipeline.function match {
    case keeper: LookAheadFunction[IN, OUT] => keeper
    case _ => null
  }

  private val areOfValues = limits.areOfValues

  /** True for calls without limits and a budget, most of all: they have a short way. */
  private val needsSlotAlone = !isLimited && (budget eq null)

  /** The queues whose first call waits for a slot or the budget. */
  private val ready = new util.ArrayDeque[Queue]
  private var isServing = false

  /** Runs on any thread, when the budget may suffice for a call that waits. */
  private val waiter: Runnable = () =>
    try pipeline.executor.execute(() => tellingOfRoom(serve()), "an async call asks its budget again")
    catch { case _: RejectedExecutionException => () }

  /** The calls that are at the front of their keys' queues, and not admitted, where calls take slots. */
  private var standing = 0

  /** The number of calls that wait outside of the capacity: for others of their key, or for its limit. */
  def waitingForKey: Int =
    (if (keys eq null) 0 else keys.waiting) + (if (areOfValues) standing else 0)

  /** True if nothing more may be taken in. */
  def isFull: Boolean = hasSlots && {
    val isFullOfKeys = (keys ne null) && keys.waiting >= options.roomOfKeys
    if (areOfValues) isFullOfKeys || inUse >= options.capacity || standing >= options.roomOfEach
    else isFullOfKeys || inUse + standing >= options.capacity + options.lookAhead
  }

  override def enter(call: Call): Unit =
    if ((keys eq null) || call.hasStarted || keys.passes(call)) comes(call)

  /** Takes a call that is at the front of its key's queue. */
  private def comes(call: Call): Unit = {
    standing += 1
    val queue = limits.queueOf(call)
    // A call that is tried again has kept its slot.
    val hasSlot = !hasSlots || call.hasStarted
    if (!hasSlot && countsWaiting) pipeline.metrics.admitted()
    if (needsSlotAlone && (hasSlot || (ready.isEmpty && inUse < options.capacity))) {
      take(call, queue, hasSlot)
      goOn(call)
    } else asks(call, queue, hasSlot)
  }

  /** Takes all that the call needs, or lets it wait. */
  private def asks(call: Call, queue: Queue, hasSlot: Boolean): Unit = {
    if (areOfValues && !call.hasStarted) queue.open()
    val isFirst = if (hasSlot) !queue.isReady else ready.isEmpty
    val isTried = isFirst && !queue.isAtLimiter
    if (isTried && isAdmitted(call, queue, hasSlot, hasPermit = false)) {
      makeReady(queue)
      goOn(call)
    } else {
      if (call.isWanted) waits(call, queue, isTried)
      if (hasSlots && hasSlot) yieldSlot(call)
    }
  }

  private def waits(call: Call, queue: Queue, isTried: Boolean): Unit = {
    if (isTried) queue.putFirst(call)
    else {
      // The elements of a list were charged before it was gathered.
      giveBackCharges(call)
      queue.addLast(call)
    }
    makeReady(queue)
    if (!countsWaiting) next.ahead(call)
  }

  /** Leaves the slot of a call that was tried before. No row leaves with it, so a mail tells of the room. */
  private def yieldSlot(call: Call): Unit = {
    call.drop(slot): Unit
    inUse -= 1
    pipeline.inbox.runSoon()
    serve()
  }

  /**
   * Takes all that the call needs, or nothing.
   *
   * @param hasPermit true if the queue has been granted one, which goes back if anything else is not there
   */
  private def isAdmitted(call: Call, queue: Queue, hasSlot: Boolean, hasPermit: Boolean): Boolean = {
    val isPaid = (hasSlot || inUse < options.capacity) && isCharged(call, queue)
    val isAdmitted = isPaid && (hasPermit || queue.acquires(call))
    if (isAdmitted) take(call, queue, hasSlot)
    else {
      if (isPaid) giveBackCharges(call)
      if (hasPermit) queue.takePermit().unused()
    }
    isAdmitted
  }

  private def giveBackCharges(call: Call): Unit = if (budget ne null) call.each(budget.giveBack(_))

  private def isCharged(call: Call, queue: Queue): Boolean = (budget eq null) || (call match {
    case group: CallGroup[IN, OUT] => areCharged(group, queue)
    case one => budget.take(one, waiter)
  })

  /** Charges the members of a group. Those that have to wait are a group of their own behind it. */
  private def areCharged(group: CallGroup[IN, OUT], queue: Queue): Boolean = {
    val others = new CallGroup[IN, OUT](pipeline)
    group.members.removeIf { one =>
      val isPaid = others.members.isEmpty && budget.take(one, waiter)
      if (!isPaid && one.isWanted) others.members.add(one): Unit
      !isPaid
    }: Unit
    val isAny = !group.members.isEmpty
    if (!isAny) group.members.addAll(others.members): Unit
    else if (!others.members.isEmpty) queue.addFirst(others)
    isAny
  }

  private def take(call: Call, queue: Queue, hasSlot: Boolean): Unit = {
    standing -= 1
    if (!call.hasStarted) {
      if (keys ne null) keys.take(call)
      if (areOfValues) call.hold(queue)
    }
    if (!hasSlot) {
      inUse += 1
      if (!countsWaiting) pipeline.metrics.admitted()
      call.hold(slot)
    }
    if (isLimited) call.permit = queue.takePermit()
  }

  private def makeReady(queue: Queue): Unit =
    if (!queue.isReady && !queue.isAtLimiter && (queue.first ne null)) {
      queue.isReady = true
      if (queue.isFirst) ready.addFirst(queue) else ready.addLast(queue)
    }

  /** Admits the calls that wait for a slot or the budget, as long as there is any. */
  private def serve(): Unit = if (!ready.isEmpty && !isServing) {
    isServing = true
    try while (!ready.isEmpty && servesFirst()) ()
    finally isServing = false
  }

  /** Takes the first call of the first queue; false if there is not what all the others lack as well. */
  private def servesFirst(): Boolean = {
    val queue = ready.peekFirst()
    val call = queue.first
    val isTaken = (call ne null) && isAdmitted(call, queue, hasSlot = !hasSlots, hasPermit = false)
    if (isTaken) queue.removeFirst()
    val goesOn = isTaken || (queue.first ne call) || (call eq null) || queue.isAtLimiter
    if (goesOn) {
      ready.pollFirst(): Unit
      queue.isReady = false
      makeReady(queue)
    }
    if (isTaken) goOn(call)
    goesOn
  }

  private def granted(queue: Queue): Unit = if (queue.takesGrant()) tellingOfRoom {
    val call = queue.first
    val mayBegin = (call ne null) && queue.mayBegin(call)
    val isTaken = mayBegin && isAdmitted(call, queue, hasSlot = !hasSlots, hasPermit = true)
    if (isTaken) queue.removeFirst()
    if (!mayBegin) queue.takePermit().unused()
    makeReady(queue)
    if (isTaken) goOn(call)
    serve()
  }

  /** Tells the operator if there is room now, since no row leaves with it. */
  private def tellingOfRoom(change: => Unit): Unit = {
    val wasFull = isFull
    change
    if (wasFull && !isFull) pipeline.inbox.runSoon()
  }

  /** Answers a call of a value, before it is called, if the answer has come. */
  private def isKnownHere(call: Call): Boolean = {
    val isKnownNow = isKnown(call)
    if (isKnownNow) {
      standing -= 1
      pipeline.metrics.withdrawn()
      leaves(call)
    }
    isKnownNow
  }

  private def leaves(call: Call): Unit = if (!call.hasStarted) {
    if (keys ne null) keys.withdraw(call): Unit
    limits.queueOf(call).giveBack(call)
  }

  /** Takes a call that was answered ahead while it waits here: it could not even be handed over. */
  override def due(call: Call): Unit = {
    take(call, limits.queueOf(call), hasSlot = false)
    goOn(call)
  }

  override def withdraw(call: Call): Unit =
    if ((keys eq null) || call.hasStarted || keys.withdraw(call)) {
      standing -= 1
      val queue = limits.queueOf(call)
      queue.leaveIfEmpty()
      if (areOfValues && !call.hasStarted) queue.giveBack(call)
      if (hasSlots) {
        if (countsWaiting) pipeline.metrics.finished()
        tellUnanswered(call)
      }
      serve()
      if (ready.isEmpty && (budget ne null)) budget.forget(waiter)
    }

  /** Tells a function with slots of its own about the end of a call that it has not answered. */
  private def tellUnanswered(call: Call): Unit =
    if ((lender ne null) && ((call.current eq null) || !call.current.isAnswer))
      try lender.gaveUp(call.elementId)
      catch { case NonFatal(error) => CallPipeline.log.warn("Could not give up {}", call.elementId, error) }

  override def ended(call: Call, attempt: CallAttempt[IN, OUT]): Boolean = {
    if (hasSlots && (budget ne null)) budget.ended(call, attempt)
    true
  }

  /** Calls that wait for the budget come to the lists that others are in; those that lack a slot don't. */
  override def inputPauses(): Boolean =
    (budget eq null) || standing == 0 || (hasSlots && inUse >= options.capacity)

  override def close(): Unit = {
    ready.clear()
    if (keys ne null) keys.close()
    lender = null
    if (budget ne null) budget.forget(waiter)
    limits.close()
  }
}
