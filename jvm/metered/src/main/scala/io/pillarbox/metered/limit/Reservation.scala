package io.pillarbox.metered.limit

/**
 * What a call takes of a limiter's limits: it waits for it, and then is its permit. Its state is under the lock
 * of limits.
 */
private[metered] final class Reservation(limiter: Limiter, val waiter: Runnable) extends Permit {
  import limiter.parts

  private val charges = new Array[Charge](parts.length)
  private var waitsFor = 0
  @volatile private var reported: Int => Double = _

  {
    var i = 0
    while (i < parts.length) {
      charges(i) = if (parts(i).limit.countsCallsAlone) Charge.OfCall else new Charge(estimate(i))
      i += 1
    }
  }

  private def estimate(i: Int) = waiter match {
    case call: CallWaiter if parts(i).unit != Limiter.Calls => call.estimate(i)
    case _ => 1.0
  }

  /** What it needs of the limit in whose queue it is. */
  def waiting: Charge = charges(waitsFor)

  /**
   * Takes what it needs of all limits, or is queued at the first that lacks. Under the lock.
   *
   * @param turnOf the limit whose queue it comes from; it waits behind others at each other one
   */
  def takeOrWait(turnOf: Limit = null): Boolean = {
    var i = 0
    while (i < parts.length && parts(i).limit.has(charges(i), isNext = parts(i).limit eq turnOf)) i += 1
    val isGranted = i == parts.length
    if (isGranted) grant()
    else {
      waitsFor = i
      parts(i).limit.enqueue(this)
    }
    isGranted
  }

  private def grant(): Unit = {
    var i = 0
    while (i < parts.length) {
      parts(i).limit.take(charges(i))
      i += 1
    }
    waiter match {
      case call: CallWaiter => call.permit = this
      case _ => ()
    }
  }

  override def observe(startNanos: Long, error: Throwable): Unit = limiter.observe(startNanos, error)

  override def told(unit: Int, said: Feedback): Unit = limiter.told(unit, said)

  override def pause(nanos: Long): Unit = limiter.pause(nanos)

  override def used(amounts: Int => Double): Unit = reported = amounts

  override def release(): Unit = {
    val amounts = reported
    val used =
      if (amounts eq null) null
      else parts.map(part => if (part.unit == Limiter.Calls) Double.NaN else amounts(part.unit))
    Limiter.change(parts) {
      var i = 0
      while (i < parts.length) {
        parts(i).limit.settle(charges(i), if (used eq null) Double.NaN else used(i))
        i += 1
      }
    }
  }

  override def unused(): Unit =
    Limiter.change(parts)(parts.indices.foreach(i => parts(i).limit.giveBack(charges(i))))
}

/**
 * What a call takes of one limit. Its fields are the limit's, under the lock.
 *
 * @param asked the amount that it is to be charged with; NaN for the mean of what has been reported
 */
private[metered] final class Charge(val asked: Double) {

  /** The amount that it was charged with. */
  var amount = 0.0

  /** The part of the time that its charge counts into. */
  var slot = 0L

  /** The number of the last feedback when it was charged; see [[FeedbackBounds]]. */
  var feedback = 0L

  /** True if it is the one call that asks whether the service is back; see [[Breaker]]. */
  var isTrial = false
}

private object Charge {

  /** That of limits which count calls alone, and so keep nothing of it. */
  val OfCall = new Charge(1.0)
}
