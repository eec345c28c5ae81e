package io.pillarbox.async.gate

import java.util
import java.util.concurrent.TimeUnit

/**
 * A gate of permits that can pause: nobody begins for a while. Waiters are served in the order they came. All
 * of it is under one lock, but waiters run outside, since they may come back at once.
 */
private[async] abstract class PausingGate(protected final val clock: GateClock) extends CallGate {
  private val waiters = new util.ArrayDeque[Runnable]
  private var armed = false
  private var paused = false
  private var pausedUntil = 0L

  /** The number of permits that are out. */
  protected final var out = 0

  /** Takes a permit; false if there is none. Under the lock. */
  protected def take(): Boolean

  /** Called when waiters may be left, after all were served that could be. Under the lock. */
  protected def someWait(): Unit = ()

  override def tryAcquire(waiter: Runnable): Boolean = synchronized {
    val granted = takeOrWait(waiter)
    if (!granted) someWait()
    granted
  }

  /** Takes a permit in its turn, or puts the waiter behind the others. Under the lock. */
  protected final def takeOrWait(waiter: Runnable): Boolean = {
    val granted = waiters.isEmpty && take()
    if (!granted) waiters.addLast(waiter)
    granted
  }

  protected final def hasWaiters: Boolean = !waiters.isEmpty

  /** True if nobody may begin. Under the lock. */
  protected final def isPaused(now: Long): Boolean = {
    if (now - pausedUntil >= 0) paused = false
    paused
  }

  /**
   * The ns for which nobody may begin; also 0 for a pause that is over, as long as nobody has asked for a
   * permit since; negative without a pause. Under the lock.
   */
  protected final def pauseLeft: Long = if (paused) math.max(0L, pausedUntil - clock.nanoTime) else -1L

  /** Lets nobody begin for this time in ns; a pause that lasts longer stays. Under the lock. */
  protected final def pause(nanos: Long): Unit = if (nanos > 0) {
    val until = clock.nanoTime + nanos
    if (!paused || until - pausedUntil > 0) {
      paused = true
      pausedUntil = until
    }
  }

  /** Turns the length of a pause that comes from outside into ns. */
  protected final def nanosOf(ms: Long): Long =
    TimeUnit.MILLISECONDS.toNanos(math.min(ms, Overload.LongestPauseMs))

  /** Serves the waiters after this time in ns, unless the clock is armed already. Under the lock. */
  protected final def serveAfter(nanos: Long): Unit = if (!armed && hasWaiters) {
    armed = true
    clock.schedule(nanos, () => onTime())
  }

  private def onTime(): Unit = {
    synchronized { armed = false }
    serve()
  }

  /** Gives permits to the waiters. Not under the lock. */
  protected final def serve(): Unit = {
    val served = new util.ArrayList[Runnable]
    synchronized {
      while (!waiters.isEmpty && take()) served.add(waiters.pollFirst())
      someWait()
    }
    served.forEach(_.run())
  }

  /** @throws IllegalStateException if more permits come back than went out */
  override def release(): Unit = {
    synchronized {
      if (out == 0) throw new IllegalStateException("A permit was released that nobody held: all are free.")
      out -= 1
    }
    serve()
  }

  override def cancel(waiter: Runnable): Boolean = synchronized(waiters.remove(waiter))

  override def mayBegin: Boolean = synchronized(!paused || clock.nanoTime - pausedUntil >= 0)

  final def inUse: Int = synchronized(out)
}
