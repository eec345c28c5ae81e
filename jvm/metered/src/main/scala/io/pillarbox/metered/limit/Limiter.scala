package io.pillarbox.metered.limit

import java.util

import scala.annotation.unused

/**
 * Limits calls over many operators of one JVM. Thread-safe; nothing here blocks.
 *
 * It is a vector of limits, each of which other vectors may have, too. A call takes what it needs of all of
 * them in one step, or nothing: while one of them lacks, it waits in that one's queue and holds nothing of the
 * others. So no order of limits can lock, and what a call is charged with counts from when it may begin.
 *
 * An attempt needs a permit to start and gives it back when it ends; while it waits for a retry it holds none.
 */
private[pillarbox] abstract class Limiter extends Permit {
  private[metered] def parts: Array[LimitPart] = Array.empty

  /**
   * Returns true if the caller has a permit: `waiter.permit`. Otherwise the waiter is queued, and will be run
   * once, on any thread, when it has been given a permit, which may be before this returns. A waiter is queued
   * once at a time.
   */
  def tryAcquire(waiter: Runnable): Boolean = {
    val reservation = new Reservation(this, waiter)
    Limiter.locked(reservation.takeOrWait())
  }

  /**
   * Takes the waiter out of its queue. True if it won't be run. False if it was run or will be, and has a
   * permit, unless it never was queued.
   */
  def cancel(waiter: Runnable): Boolean = {
    var isCancelled = false
    Limiter.change(parts) { isCancelled = parts.exists(_.limit.dequeue(waiter)) }
    isCancelled
  }

  override def observe(startNanos: Long, error: Throwable): Unit =
    if (parts.exists(_.limit.learns)) {
      val pausesMs = if (error eq null) null else parts.map(_.limit.pauseMsOf(error))
      Limiter.change(parts) {
        var i = 0
        while (i < parts.length) {
          parts(i).limit.learn(startNanos, error, if (error eq null) Overload.No else pausesMs(i))
          i += 1
        }
      }
    }

  override def told(unit: Int, said: Feedback): Unit = Limiter.locked {
    own(part => part.unit == unit && part.limit.hasRate).foreach(_.limit.receive(said))
  }

  override def pause(nanos: Long): Unit =
    Limiter.locked(own(_ => true).foreach(_.limit.pauseFor(nanos)))

  /** Those that are meant; if some of them hold for one value of a key, only these. */
  private def own(isMeant: LimitPart => Boolean): Seq[LimitPart] = {
    val meant = parts.toSeq.filter(isMeant)
    if (meant.exists(_.ofValue)) meant.filter(_.ofValue) else meant
  }

  /**
   * True if an attempt that has its permit may begin at this moment. If not, the permit is to be given back
   * and asked for again.
   */
  def mayBegin: Boolean = Limiter.locked(parts.forall(_.limit.isOpen))

  /** The number of permits that may be out at this moment; `Int.MaxValue` if that is not limited. */
  def limitNow: Int = Limiter.locked(parts.foldLeft(Int.MaxValue)(_ min _.limit.mostNow))

  /** The number of permits that are out, of the limit that has given most. */
  final def inUse: Int = Limiter.locked(parts.foldLeft(0)(_ max _.limit.inFlight))

  /** Gives back the permit of a waiter that is no [[CallWaiter]]. */
  override def release(): Unit = Limiter.change(parts)(parts.foreach(_.limit.end()))
}

/** The right of an attempt to run, held while it does. Any thread. */
private[pillarbox] trait Permit {

  /**
   * Tells how an attempt ended, before its permit is released; not told of one that was cancelled.
   *
   * @param startNanos the start of the attempt
   * @param error null for an answer
   */
  def observe(@unused startNanos: Long, @unused error: Throwable): Unit = ()

  /** Tells what an attempt has used, by the number of the unit, before its release; NaN for no report. */
  def used(@unused amounts: Int => Double): Unit = ()

  /** Takes note of what the service says of a limit, by the number of the unit. */
  def told(@unused unit: Int, @unused said: Feedback): Unit = ()

  /** Lets nobody begin for this time in ns, over all that share a limit. */
  def pause(@unused nanos: Long): Unit = ()

  /** Ends the attempt. */
  def release(): Unit

  /** Gives back the permit of an attempt that did not begin. */
  def unused(): Unit = release()
}

/** A call that asks for a permit. */
private[pillarbox] trait CallWaiter extends Runnable {

  /** The permit that it was given. Written before it is served. Volatile. */
  var permit: Permit

  /** The amount to charge in the limit of this number; NaN for the mean of what has been reported. */
  def estimate(limit: Int): Double
}

/**
 * A limit in a vector.
 *
 * @param unit the number of the unit that it counts, in which amounts are reported
 * @param ofValue true if it holds for one value of a key. A pause, and what the service says, is then of such
 *   limits alone
 */
private[metered] final case class LimitPart(limit: Limit, unit: Int, ofValue: Boolean)

private[pillarbox] object Limiter {

  /** The unit of limits that count calls. */
  final val Calls = -1

  /** No limit; operators don't ask it. */
  val Unlimited: Limiter = new Several(Array.empty)

  /** Applies several limits of calls. */
  def all(limiters: Limiter*): Limiter = ofUnits(limiters.map(_ -> Calls))

  /**
   * Applies several limits.
   *
   * @param limiters each with the number of its unit; `Calls` for calls
   * @param ofValue those that hold for one value of a key
   */
  def ofUnits(limiters: Seq[(Limiter, Int)], ofValue: Limiter => Boolean = _ => false): Limiter =
    limiters.filterNot(_._1 eq Unlimited) match {
      case Seq() => Unlimited
      case Seq((one, Calls)) if !ofValue(one) => one
      case several =>
        new Several(
          several.flatMap { case (of, unit) =>
            of.parts.map(_.copy(unit = unit, ofValue = ofValue(of)))
          }.toArray
        )
    }

  private final class Several(override private[metered] val parts: Array[LimitPart]) extends Limiter

  /**
   * The lock of all limits of this JVM, since operators share them in any combination. It is held for less than
   * a microsecond.
   */
  private val lock = new Object

  private[metered] def locked[A](body: => A): A = lock.synchronized(body)

  /** Changes limits, and then serves those who wait for them: outside the lock, as they may come back at once. */
  private[metered] def change(parts: Array[LimitPart])(body: => Unit): Unit = {
    val served = lock.synchronized {
      body
      if (parts.exists(_.limit.hasWaiters)) serve(parts) else null
    }
    if (served ne null) served.forEach(_.run())
  }

  private def serve(parts: Array[LimitPart]) = {
    val served = new util.ArrayList[Runnable]
    parts.foreach(_.limit.serve(served))
    served
  }
}
