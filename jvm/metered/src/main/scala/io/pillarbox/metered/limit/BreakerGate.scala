package io.pillarbox.metered.limit

/**
 * Stops calls to a service that is overloaded. After so many attempts in a row that met overload none begins
 * for a while; then one tries. Its answer lets the others go on, overload stops them for as long again, and
 * after another failure, which says nothing of the load, another one tries. So it does if the one that tries
 * has not ended for that long.
 *
 * @param failures the attempts in a row, answers counting anew and other failures not at all
 * @param pauseNanos the time for which none begins
 */
private[pillarbox] final class BreakerGate(
    failures: Int,
    pauseNanos: Long,
    overload: Overload,
    gateClock: GateClock
) extends PausingGate(gateClock) {
  import BreakerGate._

  private var inRow = 0

  /** The start of the last one in the row: a call of many rows fails once. */
  private var lastStart = 0L

  /** True from when it stops calls until one that began afterwards is answered. */
  private var isOpen = false
  private var stoppedNanos = 0L
  private var isTrying = false
  private var triedNanos = 0L

  private var openings = 0
  private var openNanos = 0L
  private var countedNanos = 0L

  override protected def take(waiter: Runnable): Boolean = {
    val tries = isOpen && !isPausedNow && (!isTrying || clock.nanoTime - triedNanos >= pauseNanos)
    val granted = if (isOpen) tries else !isPausedNow
    if (granted) out += 1
    if (tries) {
      isTrying = true
      triedNanos = clock.nanoTime
    }
    waiter match {
      case claim: Claim => claim.slot = if (tries) Trial else NoTrial
      case _ => ()
    }
    granted
  }

  override protected def someWait(): Unit =
    if (isPausedNow) serveAfterPause()
    else if (isTrying) serveAfter(math.max(0L, triedNanos + pauseNanos - clock.nanoTime))

  /** Lets another one try in the place of one that did not begin. */
  override private[metered] def giveBack(claim: Claim): Unit = {
    synchronized(if (claim.slot == Trial) isTrying = false)
    release()
  }

  override def observe(startNanos: Long, error: Throwable): Unit = {
    val isOverload = (error ne null) && overload.pauseMs(error) >= 0
    synchronized {
      // Those that began before it stopped the calls say nothing new.
      if (!isOpen || startNanos - stoppedNanos > 0) learn(startNanos, isOverload, isAnswer = error eq null)
    }
  }

  private def learn(startNanos: Long, isOverload: Boolean, isAnswer: Boolean): Unit = {
    isTrying = false
    if (isAnswer) {
      inRow = 0
      if (isOpen) countOpen()
      isOpen = false
    } else if (isOverload && (inRow == 0 || startNanos != lastStart)) {
      lastStart = startNanos
      inRow += 1
      if (isOpen || inRow >= failures) stop()
    }
  }

  private def stop(): Unit = {
    stoppedNanos = clock.nanoTime
    if (!isOpen) {
      openings += 1
      countedNanos = stoppedNanos
    }
    isOpen = true
    lengthenPause(pauseNanos)
  }

  private def countOpen(): Unit = {
    val now = clock.nanoTime
    openNanos += now - countedNanos
    countedNanos = now
  }

  /** Gives how often it has stopped calls, and the ns for which, since this was asked last. */
  def takeCounts(taker: (Int, Long) => Unit): Unit = {
    val (times, nanos) = synchronized {
      if (isOpen) countOpen()
      val counts = (openings, openNanos)
      openings = 0
      openNanos = 0L
      counts
    }
    taker(times, nanos)
  }
}

private object BreakerGate {
  private final val NoTrial = 0L
  private final val Trial = 1L
}
