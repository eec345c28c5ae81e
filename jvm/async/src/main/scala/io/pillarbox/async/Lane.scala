package io.pillarbox.async

import java.util
import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.atomic.AtomicInteger

import io.pillarbox.metered.limit.{CallWaiter, Limiter, Permit}

/**
 * The calls that need a permit of one gate, in order. It has one waiter at the gate however many calls wait,
 * and none if none does. Mailbox thread only, except the waiter, which runs on any thread.
 *
 * In a lane of one value of a key, a call that waits for its permit has no place among the calls under way:
 * others have it meanwhile. If there is none when the permit comes, that goes back, and the call asks for it
 * again when it has a place: so nothing of a limit is held while it waits for something else.
 *
 * @param turn lets the next call of the lane go on when one has begun; null where no limit has a key
 */
private[async] final class Lane[IN, OUT](
    way: CallWay[IN, OUT],
    limits: Limits[IN, OUT],
    gate: Limiter,
    turn: LaneTurn[IN, OUT]
) {
  import Lane._

  private type Call = InFlightElement[IN, OUT]

  private val line = new util.ArrayDeque[Call]
  private val ticket = new Ticket
  private val isCharged = way.options.charges.isDefined
  private val isKeyed = turn ne null
  private var isWaiting = false

  /** The call that waits for a place, since there was none when it had a permit; null for none. */
  private var placeFor: Call = _

  /** Takes a call that has its charges. */
  def enter(call: Call): Unit =
    if (!dropGone() && isFree && ticket.acquire(call)) start(call)
    else {
      line.addLast(call)
      if (!isWaiting) limits.laneWaits(true)
      isWaiting = true
      if (isKeyed) way.place.stepOut(call)
    }

  private def isFree = ticket.get == Idle && (placeFor eq null)

  private def start(call: Call): Unit = {
    limits.start(call, ticket.taken())
    if (isKeyed) turn.begun(call)
  }

  /** Starts those that have what they need. */
  private def advance(): Unit = while (dropGone() && isFree && ticket.acquire(line.peekFirst())) startFirst()

  /** Starts the first, which has a permit, or lets it wait for its place. */
  private def startFirst(): Unit = {
    val first = line.peekFirst()
    if (!isKeyed || way.place.stepIn(first)) start(line.pollFirst())
    else {
      ticket.taken().unused()
      placeFor = first
    }
  }

  /** Takes a call that has a place again. */
  def placed(call: Call): Unit = {
    placeFor = null
    if (dropGone() && (line.peekFirst() eq call))
      if (isFree && ticket.acquire(call)) start(line.pollFirst()) else way.place.stepOut(call)
    advance()
  }

  /** Leaves the queue of the gate with the last wanted call, so that no permit is spent on nothing. */
  def withdraw(call: Call): Unit = {
    if (placeFor eq call) {
      placeFor = null
      advance()
    }
    if (!dropGone() && ticket.get == InLine && gate.cancel(ticket)) ticket.set(Idle)
  }

  /** Drops unwanted calls from the head; true if a call is left. */
  private def dropGone(): Boolean = {
    while (!line.isEmpty && !line.peekFirst().isWanted) line.pollFirst()
    if (isWaiting && line.isEmpty) {
      isWaiting = false
      limits.laneWaits(false)
    }
    !line.isEmpty
  }

  /**
   * Starts the first call, unless a pause has begun since the permit was granted, or it was granted for one
   * that is gone and is charged otherwise.
   */
  private def onGranted(): Unit = if (ticket.compareAndSet(Granted, Idle)) {
    way.metrics.limitWait.lap()
    val wasFull = isKeyed && turn.isFull
    if (dropGone() && gate.mayBegin && (!isCharged || ticket.isFor(line.peekFirst()))) startFirst()
    else ticket.taken().unused()
    advance()
    // The input may wait for the room, which no call's end has made.
    if (wasFull && !turn.isFull) way.inbox.runSoon()
  }

  /** Leaves the queue of the gate, and releases a permit that was granted and not used. */
  def close(): Unit = {
    line.clear()
    dropGone(): Unit
    val state = ticket.getAndSet(Closed)
    if (state == Granted) ticket.taken().unused()
    // If `cancel` fails, a permit is on its way to the ticket, which finds the lane closed and releases it.
    else if (state == InLine) gate.cancel(ticket): Unit
  }

  /** The waiter at the gate. Its state tells who owns a permit that arrives; `Closed` releases it at once. */
  private final class Ticket extends AtomicInteger(Idle) with CallWaiter {
    @volatile override var permit: Permit = _
    private var wanted: Call = _

    override def estimate(limit: Int): Double = wanted.charges(limit)

    def isFor(call: Call): Boolean = wanted eq call

    /** The permit that was granted. */
    def taken(): Permit = {
      val own = permit
      permit = null
      if (own eq null) gate else own
    }

    def acquire(call: Call): Boolean = {
      wanted = call
      set(InLine)
      val granted = gate.tryAcquire(this)
      if (granted) set(Idle)
      granted
    }

    override def run(): Unit =
      if (compareAndSet(InLine, Granted)) tell() else taken().unused()

    private def tell(): Unit =
      try way.executor.execute(() => onGranted(), "an async call has its permit")
      catch {
        // The task has ended and `close` gives the permit back.
        case _: RejectedExecutionException => ()
      }
  }
}

private object Lane {
  private final val Idle = 0
  private final val InLine = 1
  private final val Granted = 2
  private final val Closed = 3
}
