package io.pillarbox.metered.limit

import java.util

/**
 * A limit that is shared: of calls in flight, of a rate, or both. Pauses, a breaker and what a service bears
 * change its figures. It is a limiter of its own, and a part of others. Calls that lack it wait in its queue,
 * and are served in the order they came.
 *
 * All methods here but those of [[Limiter]] are called under the lock of limits.
 *
 * @param breaker stops calls to a service that is down; null for none
 * @param overload says which errors tell of overload
 */
private[pillarbox] abstract class Limit(clock: LimitClock, breaker: Breaker, overload: Overload)
    extends Limiter {
  import Limit._

  override private[metered] final val parts: Array[LimitPart] = Array(
    LimitPart(this, Limiter.Calls, ofValue = false)
  )
  private val queue = new util.ArrayDeque[Reservation]
  private var armed = false
  private var armedFor = 0L
  private var paused = false
  private var pausedUntil = 0L

  /** When it was looked last whether there is enough. */
  private var now = 0L

  /** The number of calls in flight. */
  private[metered] final var inFlight = 0

  /** The calls that may be in flight; `Int.MaxValue` if that is not limited. */
  private[metered] def mostNow: Int

  /** The amounts of its rate; null if it has none. */
  protected def amounts: Amounts

  /** The time without a call after which it is as good as a new one. Any thread. */
  def keepNanos: Long

  /** True if nothing is left of it outside this process, which would otherwise count yet. Any thread. */
  def isReturned: Boolean = false

  private[metered] final def hasRate: Boolean = amounts ne null

  /** True if it learns from how attempts end. */
  private[metered] def learns: Boolean = breaker ne null

  /** The pause in ms that an error asks for, see [[Overload]]. It asks the user's code, so not under the lock. */
  private[metered] final def pauseMsOf(error: Throwable): Long =
    if (learns) overload.pauseMs(error) else Overload.No

  private[metered] final def hasWaiters: Boolean = !queue.isEmpty

  /** What the first in the queue needs; null if nobody waits. */
  protected final def firstWaiting: Charge = if (queue.isEmpty) null else queue.peekFirst.waiting

  /** True if it has this much, and nobody waits who comes first. */
  private[metered] final def has(charge: Charge, isNext: Boolean): Boolean =
    (isNext || queue.isEmpty) && waitNanos(charge) == 0

  /** The time in ns until there is this much if nothing is given back; `Never` if only that makes room. */
  private def waitNanos(charge: Charge): Long = {
    // The pause first: one that is over ends here, also while there is no room.
    val pause = if (paused) pauseLeft(clock.nanoTime) else 0L
    if (inFlight >= mostNow) Never
    else if (countsCallsAlone) pause
    else {
      now = clock.nanoTime
      val forBreaker = if (breaker eq null) 0L else breaker.waitNanos(now)
      val forAmount = if (amounts eq null) 0L else amounts.waitNanos(charge, now)
      math.max(pause, math.max(forBreaker, forAmount))
    }
  }

  /** True if it needs no clock, but for a pause. */
  private[metered] final def countsCallsAlone: Boolean = (amounts eq null) && (breaker eq null)

  /** Takes what was found to be there. */
  private[metered] def take(charge: Charge): Unit = {
    inFlight += 1
    if (!countsCallsAlone) {
      if (breaker ne null) breaker.take(charge, now)
      if (amounts ne null) amounts.take(charge, now)
    }
  }

  private[metered] def enqueue(one: Reservation): Unit = {
    queue.addLast(one)
    if (queue.size == 1) serveAfter(waitNanos(one.waiting))
  }

  /** Takes a waiter out; false if it is not there. */
  private[metered] final def dequeue(waiter: Runnable): Boolean = {
    val all = queue.iterator
    var isFound = false
    while (!isFound && all.hasNext) {
      isFound = all.next().waiter eq waiter
      if (isFound) all.remove()
    }
    isFound
  }

  /** Gives those that wait what they need, in order. One that lacks another limit waits there. */
  private[metered] final def serve(served: util.List[Runnable]): Unit = if (!queue.isEmpty) {
    var wait = 0L
    while (wait == 0 && !queue.isEmpty) {
      val head = queue.peekFirst
      wait = waitNanos(head.waiting)
      if (wait == 0) {
        queue.pollFirst(): Unit
        if (head.takeOrWait(turnOf = this)) served.add(head.waiter): Unit
      }
    }
    if (wait > 0) serveAfter(wait)
  }

  private def serveAfter(nanos: Long): Unit = if (nanos != Never) {
    val at = clock.nanoTime + nanos
    if (!armed || at - armedFor < 0) {
      armed = true
      armedFor = at
      clock.schedule(nanos, () => onTime(at))
    }
  }

  private def onTime(at: Long): Unit = Limiter.change(parts)(if (armedFor == at) armed = false)

  /** Gives back what a call had that has ended; NaN for `used` if it reported nothing. */
  private[metered] final def settle(charge: Charge, used: Double): Unit = {
    end()
    if (amounts ne null) amounts.settle(charge, used)
  }

  /** Gives back what a call had that did not begin. */
  private[metered] final def giveBack(charge: Charge): Unit = {
    end()
    if (breaker ne null) breaker.giveBack(charge)
    if (amounts ne null) amounts.giveBack(charge, clock.nanoTime)
  }

  /** @throws IllegalStateException if more permits come back than went out */
  private[metered] final def end(): Unit = {
    if (inFlight == 0)
      throw new IllegalStateException("A permit was released that nobody held: all are free.")
    inFlight -= 1
  }

  private[metered] def learn(startNanos: Long, error: Throwable, pauseMs: Long): Unit =
    if ((breaker ne null) && breaker.observe(startNanos, error, pauseMs >= 0, clock.nanoTime))
      lengthenPause(breaker.pauseNanos)

  private[metered] def receive(said: Feedback): Unit = amounts.receive(said, clock.nanoTime)

  /** Lets nobody begin for this time in ns, ten years at most; a longer pause stays. */
  private[metered] def pauseFor(nanos: Long): Unit = lengthenPause(nanos)

  protected final def lengthenPause(nanos: Long): Unit = if (nanos > 0) {
    val until = clock.nanoTime + math.min(nanos, Overload.LongestPauseNanos)
    if (!paused || until - pausedUntil > 0) {
      paused = true
      pausedUntil = until
    }
  }

  private def pauseLeft(now: Long): Long = {
    if (paused && now - pausedUntil >= 0) paused = false
    if (paused) pausedUntil - now else 0L
  }

  private[metered] final def isOpen: Boolean =
    (!paused && (amounts eq null)) || {
      val now = clock.nanoTime
      pauseLeft(now) == 0 && ((amounts eq null) || !amounts.isClosed(now))
    }

  /** True while a pause lasts, or the service has said what is left. Any thread. */
  final def isBound: Boolean = Limiter.locked {
    val now = clock.nanoTime
    pauseLeft(now) > 0 || ((amounts ne null) && amounts.isBound(now))
  }

  /** Gives how often the breaker has stopped calls, and the ns for which, since this was asked last. Any thread. */
  final def takeBreakerCounts(taker: (Int, Long) => Unit): Unit = if (breaker ne null) {
    val (times, nanos) = Limiter.locked(breaker.takeCounts(clock.nanoTime))
    taker(times, nanos)
  }
}

private[metered] object Limit {
  final val Never = Long.MaxValue
}

/**
 * The figures of a limit, over all who share it.
 *
 * @param calls the calls in flight at a time; 0 for no limit
 * @param adaptive true if `calls` is the most, and the limit follows what the service bears
 * @param most the calls that begin in an interval, or the amount that they use; 0 for no limit
 * @param intervalNanos the length of that interval
 */
private[pillarbox] final case class LimitTerms(
    calls: Int,
    adaptive: Boolean = false,
    most: Double = 0.0,
    intervalNanos: Long = 1L
) {
  require(calls >= 0 && most >= 0 && intervalNanos > 0, s"A limit is positive, unlike $this")

  def hasRate: Boolean = most > 0
}

/** What there is of a rate, and who was charged with it. Under the lock of limits. */
private[metered] trait Amounts {

  /** The time in ns until there is this much, if nothing is given back; `Never` if time makes no room. */
  def waitNanos(charge: Charge, now: Long): Long

  def take(charge: Charge, now: Long): Unit

  /** Takes back what a call that did not begin was charged with. */
  def giveBack(charge: Charge, now: Long): Unit

  /** Puts what a call has used in the place of its charge; NaN if nothing was reported. */
  def settle(charge: Charge, used: Double): Unit

  /** Takes note of what the service says is left. */
  def receive(said: Feedback, now: Long): Unit

  /** True if the service has said that nothing is left. */
  def isClosed(now: Long): Boolean

  /** True while something that the service has said holds. */
  def isBound(now: Long): Boolean
}
