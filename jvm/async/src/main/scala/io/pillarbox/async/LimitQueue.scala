package io.pillarbox.async

import java.util
import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.atomic.AtomicInteger

import io.pillarbox.metered.limit.{CallWaiter, Limiter, Permit}

/**
 * The calls that need a permit of one limiter, in order, but those that are tried again first. It has one waiter
 * at the limiter however many calls wait, and none if none does. Mailbox thread only, except the waiter, which
 * runs on any thread.
 *
 * @param limiter null if there are no limits
 * @param isFirst true if its calls go before those of other queues
 */
private[async] final class LimitQueue[IN, OUT](
    limits: LimitQueues[IN, OUT],
    limiter: Limiter,
    val isFirst: Boolean,
    onEnd: LimitQueue[IN, OUT] => Unit
) extends Holding[IN, OUT] {
  import LimitQueue._

  private type Call = InFlightElement[IN, OUT]

  private val again = new util.ArrayDeque[Call]
  private val fresh = new util.ArrayDeque[Call]
  private val waiter = new Waiter
  private var head: Call = _

  /** Calls that wait here for the first time, or that have been admitted and are not over. */
  private var calls = 0

  /** True if it waits for something else than the limiter. */
  var isReady = false

  /** True if a waiter is at the limiter, or has a permit that is on its way to the mailbox. */
  def isAtLimiter: Boolean = isLooking || waiter.get != Idle

  /** True while it looks whether a call is known, which may bring others: they queue up meanwhile. */
  private var isLooking = false

  /** Counts a call that may come to wait here, until it is given back. */
  def open(): Unit = calls += 1

  override def giveBack(call: Call): Unit = {
    calls -= 1
    if (calls == 0) onEnd(this)
  }

  def addLast(call: Call): Unit = if (call.hasStarted) again.addLast(call) else fresh.addLast(call)

  /** Puts a call before those that have not been tried. */
  def addFirst(call: Call): Unit = fresh.addFirst(call)

  /** Makes a call the first, of a queue that had none. */
  def putFirst(call: Call): Unit = head = call

  /** The next call; null if none waits. */
  def first: Call = {
    while (((head eq null) || !head.isWanted) && !(again.isEmpty && fresh.isEmpty)) {
      val next = if (again.isEmpty) fresh.pollFirst() else again.pollFirst()
      head = if (isKnown(next)) null else next
    }
    if ((head ne null) && !head.isWanted) head = null
    head
  }

  private def isKnown(call: Call): Boolean = {
    isLooking = true
    try call.isWanted && limits.isKnown(call)
    finally isLooking = false
  }

  /** Takes the first out, which goes on. */
  def removeFirst(): Unit = head = null

  /** True if the call has a permit now; else the waiter stands at the limiter, or the call can't be charged. */
  def acquires(call: Call): Boolean = (limiter eq null) || (limits.charge(call) && waiter.acquires(call))

  /** The permit that the last call was given; null without limits. */
  def takePermit(): Permit = if (limiter eq null) null else waiter.takePermit()

  /**
   * Takes a permit that was granted, in its mail.
   *
   * @return false if it was given back meanwhile
   */
  def takesGrant(): Boolean = {
    val isGranted = waiter.compareAndSet(Granted, Idle)
    if (isGranted) limits.waits(-1)
    isGranted
  }

  /** True if the call may begin with the permit that was granted: there is no pause, and it was charged for it. */
  def mayBegin(call: Call): Boolean = limiter.mayBegin && waiter.isFor(call)

  /** Leaves the limiter if no call waits any more, so that no permit is spent on nothing. */
  def leaveIfEmpty(): Unit =
    if ((first eq null) && waiter.get == InLine && limiter.cancel(waiter)) {
      waiter.set(Idle)
      limits.waits(-1)
    }

  /** Leaves the limiter, and releases a permit that was granted and not used. */
  def close(): Unit = {
    again.clear()
    fresh.clear()
    head = null
    val state = waiter.getAndSet(Closed)
    if (state == InLine || state == Granted) limits.waits(-1)
    if (state == Granted) waiter.takePermit().unused()
    // If `cancel` fails, a permit is on its way to the waiter, which finds it closed and gives it back.
    else if (state == InLine) limiter.cancel(waiter): Unit
  }

  /** Its state tells who owns a permit that arrives; `Closed` gives it back at once. */
  private final class Waiter extends AtomicInteger(Idle) with CallWaiter {
    @volatile override var permit: Permit = _
    private var wanted: Call = _
    private var charges: Array[Double] = _

    override def estimate(limit: Int): Double = charges(limit)

    def isFor(call: Call): Boolean = (charges eq null) || (wanted eq call)

    def takePermit(): Permit = {
      val own = permit
      permit = null
      if (own eq null) limiter else own
    }

    def acquires(call: Call): Boolean = {
      wanted = call
      charges = limits.charges
      set(InLine)
      val isGranted = limiter.tryAcquire(this)
      if (isGranted) set(Idle) else limits.waits(1)
      isGranted
    }

    override def run(): Unit =
      if (compareAndSet(InLine, Granted)) tell() else takePermit().unused()

    private def tell(): Unit =
      try limits.executor.execute(() => limits.granted(LimitQueue.this), "an async call has its permit")
      catch {
        // The task has ended and `close` gives the permit back.
        case _: RejectedExecutionException => ()
      }
  }
}

private object LimitQueue {
  private final val Idle = 0
  private final val InLine = 1
  private final val Granted = 2
  private final val Closed = 3
}
