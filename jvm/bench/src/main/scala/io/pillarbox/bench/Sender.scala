package io.pillarbox.bench

import java.util.concurrent.Semaphore
import java.util.concurrent.locks.LockSupport

/** A second thread that acts: a number of times on demand, or at a steady rate until closed. */
final class Sender(action: Runnable) extends AutoCloseable {
  private val asked = new Semaphore(0)
  @volatile private var times = 0
  @volatile private var open = true
  private var thread: Thread = _

  /** Waits for `send`. */
  def onDemand(): Sender = run { () =>
    asked.acquireUninterruptibly()
    var left = times
    while (left > 0) {
      action.run()
      left -= 1
    }
  }

  /** About `perSecond` actions a second. */
  def steadily(perSecond: Int): Sender = run { () =>
    LockSupport.parkNanos(1000000000L / perSecond)
    action.run()
  }

  private def run(turn: Runnable): Sender = {
    thread = new Thread(() => while (open) turn.run(), "sender")
    thread.setDaemon(true)
    thread.start()
    this
  }

  /** Lets the thread act that many times. */
  def send(count: Int): Unit = {
    times = count
    asked.release()
  }

  override def close(): Unit = {
    open = false
    times = 0
    asked.release()
    thread.join()
  }
}
