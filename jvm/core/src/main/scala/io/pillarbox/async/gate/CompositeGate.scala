package io.pillarbox.async.gate

import java.util
import java.util.concurrent.ConcurrentHashMap

/** Needs a permit of `first` and then one of `second`; holds the first while it waits for the second. */
private[async] final class CompositeGate(first: CallGate, second: CallGate) extends CallGate {
  private val waiting: util.Map[Runnable, Passage] = new ConcurrentHashMap

  override def tryAcquire(waiter: Runnable): Boolean = {
    val passage = new Passage(waiter)
    waiting.put(waiter, passage)
    val granted = first.tryAcquire(passage) && second.tryAcquire(passage.secondWaiter)
    if (granted) waiting.remove(waiter)
    granted
  }

  override def cancel(waiter: Runnable): Boolean = {
    val passage = waiting.remove(waiter)
    (passage ne null) && passage.abandon()
  }

  override def observe(startNanos: Long, error: Throwable): Unit = {
    first.observe(startNanos, error)
    second.observe(startNanos, error)
  }

  override def mayBegin: Boolean = first.mayBegin && second.mayBegin

  override def limitNow: Int = math.min(first.limitNow, second.limitNow)

  override def release(): Unit = {
    second.release()
    first.release()
  }

  /**
   * One waiter on its way through both gates. The side that sets `over` first, the arrival or the
   * cancellation, decides.
   */
  private final class Passage(waiter: Runnable) extends Runnable {
    private var over = false

    val secondWaiter: Runnable = () => arrive()

    /** Asks the second gate, since the first has let it through. */
    override def run(): Unit = if (isOver) first.release() else if (second.tryAcquire(secondWaiter)) arrive()

    private def isOver: Boolean = synchronized(over)

    private def arrive(): Unit = {
      val arrived = finish()
      if (arrived) {
        waiting.remove(waiter)
        waiter.run()
      } else release()
    }

    private def finish(): Boolean = synchronized {
      val undecided = !over
      over = true
      undecided
    }

    /**
     * Leaves the line in which it stands. If it stands in none it is between the two, or about to arrive, and
     * gives back there what it holds.
     */
    def abandon(): Boolean = {
      val abandoned = finish()
      if (abandoned && !first.cancel(this) && second.cancel(secondWaiter)) first.release()
      abandoned
    }
  }
}
