package io.pillarbox.metered.limit

/**
 * Stops calls to a service that is overloaded. After so many attempts in a row that met overload none begins
 * for a while; then one tries. Its answer lets the others go on, overload stops them for as long again, and
 * after another failure, which says nothing of the load, another one tries. So it does if the one that tries
 * has not ended for that long. Under the lock of limits; its limit pauses meanwhile.
 *
 * @param failures the attempts in a row, answers counting anew and other failures not at all
 * @param pauseNanos the time for which none begins
 */
private[pillarbox] final class Breaker(failures: Int, val pauseNanos: Long) {
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

  /** The time until a call may begin, or try, beside the pause. */
  def waitNanos(now: Long): Long =
    if (isOpen && isTrying) math.max(0L, triedNanos + pauseNanos - now) else 0L

  def take(charge: Charge, now: Long): Unit = if (isOpen) {
    charge.isTrial = true
    isTrying = true
    triedNanos = now
  }

  /** Lets another one try in the place of one that did not begin. */
  def giveBack(charge: Charge): Unit = if (charge.isTrial) isTrying = false

  /**
   * Takes note of the end of an attempt.
   *
   * @param isOverload true if the service said that it is overloaded
   * @return true if calls are to pause
   */
  def observe(startNanos: Long, error: Throwable, isOverload: Boolean, now: Long): Boolean =
    // Those that began before it stopped the calls say nothing new.
    if (isOpen && startNanos - stoppedNanos <= 0) false
    else {
      isTrying = false
      if (error eq null) closes(now)
      isOverload && (inRow == 0 || startNanos != lastStart) && countsToStop(startNanos, now)
    }

  private def closes(now: Long): Unit = {
    inRow = 0
    if (isOpen) countOpen(now)
    isOpen = false
  }

  private def countsToStop(startNanos: Long, now: Long): Boolean = {
    lastStart = startNanos
    inRow += 1
    val stops = isOpen || inRow >= failures
    if (stops) {
      stoppedNanos = now
      if (!isOpen) {
        openings += 1
        countedNanos = now
      }
      isOpen = true
    }
    stops
  }

  private def countOpen(now: Long): Unit = {
    openNanos += now - countedNanos
    countedNanos = now
  }

  /** Returns how often it has stopped calls, and the ns for which, since this was asked last. */
  def takeCounts(now: Long): (Int, Long) = {
    if (isOpen) countOpen(now)
    val counts = (openings, openNanos)
    openings = 0
    openNanos = 0L
    counts
  }
}
