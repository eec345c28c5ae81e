package io.pillarbox.metered.limit

import java.util
import java.util.concurrent.TimeUnit

/**
 * A gate of permits that can pause: nobody begins for a while. Waiters are served in the order they came. All
 * of it is under one lock, but waiters run outside, since they may come back at once.
 */
private[metered] abstract class PausingGate(protected final val clock: GateClock) extends CallGate {
  private val waiters = new util.ArrayDeque[Runnable]
  private var armed = false
  private var armedFor = 0L
  private var paused = false
  private var pausedUntil = 0L

  /** The number of permits that are out. */
  protected final var out = 0

  /** Takes a permit for a waiter; false if there is none. Under the lock. */
  protected def take(waiter: Runnable): Boolean

  /** Called when waiters may be left, after all were served that could be. Under the lock. */
  protected def someWait(): Unit = ()

  override def tryAcquire(waiter: Runnable): Boolean = synchronized {
    val granted = takeOrWait(waiter)
    if (!granted) someWait()
    granted
  }

  override private[metered] def tryNow(waiter: Runnable): Boolean =
    synchronized(waiters.isEmpty && take(waiter))

  /** Takes a permit in its turn, or puts the waiter behind the others. Under the lock. */
  protected final def takeOrWait(waiter: Runnable): Boolean = {
    val granted = waiters.isEmpty && take(waiter)
    if (!granted) waiters.addLast(waiter)
    granted
  }

  protected final def hasWaiters: Boolean = !waiters.isEmpty

  /** The waiter whose turn is next, or null. Under the lock. */
  protected final def head: Runnable = waiters.peekFirst

  /** True if nobody may begin. Under the lock. */
  protected final def isPaused(now: Long): Boolean = {
    if (now - pausedUntil >= 0) paused = false
    paused
  }

  /** The same at this moment; without a pause it does not read the clock. Under the lock. */
  protected final def isPausedNow: Boolean = paused && isPaused(clock.nanoTime)

  /**
   * The ns for which nobody may begin; also 0 for a pause that is over, as long as nobody has asked for a
   * permit since; negative without a pause. Under the lock.
   */
  protected final def pauseLeft: Long = if (paused) math.max(0L, pausedUntil - clock.nanoTime) else -1L

  override def pause(nanos: Long): Unit = synchronized(lengthenPause(nanos))

  /** Lets nobody begin for this time in ns, ten years at most; a longer pause stays. Under the lock. */
  protected final def lengthenPause(nanos: Long): Unit = if (nanos > 0) {
    val until = clock.nanoTime + math.min(nanos, Overload.LongestPauseNanos)
    if (!paused || until - pausedUntil > 0) {
      paused = true
      pausedUntil = until
    }
  }

  /** Turns the length of a pause that comes from outside into ns; `lengthenPause` bounds it. */
  protected final def nanosOf(ms: Long): Long =
    TimeUnit.MILLISECONDS.toNanos(ms)

  /** Serves the waiters after this time in ns, unless the clock is armed for less. Under the lock. */
  protected final def serveAfter(nanos: Long): Unit = if (hasWaiters) {
    val at = clock.nanoTime + nanos
    if (!armed || at - armedFor < 0) {
      armed = true
      armedFor = at
      clock.schedule(nanos, () => onTime(at))
    }
  }

  /** Serves the waiters when the pause is over. Under the lock. */
  protected final def serveAfterPause(): Unit = {
    val left = pauseLeft
    if (left >= 0) serveAfter(left)
  }

  private def onTime(at: Long): Unit = {
    synchronized { if (armedFor == at) armed = false }
    serve()
  }

  /** Gives permits to the waiters. Not under the lock. */
  protected final def serve(): Unit = {
    val served = synchronized {
      if (waiters.isEmpty) null
      else {
        val served = new util.ArrayList[Runnable]
        while (!waiters.isEmpty && take(waiters.peekFirst)) served.add(waiters.pollFirst())
        someWait()
        served
      }
    }
    if (served ne null) served.forEach(_.run())
  }

  /** @throws IllegalStateException if more permits come back than went out */
  override def release(): Unit = {
    val some = synchronized {
      if (out == 0) throw new IllegalStateException("A permit was released that nobody held: all are free.")
      out -= 1
      !waiters.isEmpty
    }
    if (some) serve()
  }

  /** The next one may need less than the head did, and so be served sooner. */
  override def cancel(waiter: Runnable): Boolean = synchronized {
    val wasHead = head eq waiter
    val isCancelled = waiters.remove(waiter)
    if (wasHead) someWait()
    isCancelled
  }

  override def mayBegin: Boolean = synchronized(!paused || clock.nanoTime - pausedUntil >= 0)

  final def inUse: Int = synchronized(out)
}
