package io.pillarbox.metered.limit

import scala.annotation.unused

/**
 * Limits calls over many operators of one JVM. Thread-safe; nothing here blocks.
 *
 * An attempt needs a permit to start and gives it back when it ends; while it waits for a retry it holds
 * none.
 */
private[pillarbox] trait CallGate extends Permit {

  /**
   * Returns true if the caller has a permit. Otherwise the waiter stands in line, and will be run once, on
   * any thread, when it has been given a permit, which may be before this returns. A waiter stands in line
   * once at a time.
   */
  def tryAcquire(waiter: Runnable): Boolean

  /** Returns true if the caller has a permit. Otherwise it does not stand in line. */
  private[metered] def tryNow(waiter: Runnable): Boolean

  /**
   * Takes the waiter out of the line. True if it won't be run. False if it was run or will be, and has a
   * permit, unless it never stood in line.
   */
  def cancel(waiter: Runnable): Boolean

  /** Gives a permit back, once for each that was taken. */
  override def release(): Unit

  /**
   * Gives the permit of a claim back whose attempt has ended.
   *
   * @param used the amount that it has used; NaN if that was not reported
   */
  private[metered] def settle(@unused claim: Claim, @unused used: Double): Unit = release()

  /** Gives the permit of a claim back whose attempt did not begin. */
  private[metered] def giveBack(@unused claim: Claim): Unit = release()

  /** True if it goes by what the service says of its limit. */
  private[metered] def hears: Boolean = false

  /** Takes note of what the service says of this limit, if it `hears`. */
  private[metered] def hear(@unused said: Told): Unit = ()

  override def told(unit: Int, said: Told): Unit = if (unit == CallGate.Calls) hear(said)

  /**
   * True if an attempt that has its permit may begin at this moment. If not, the permit is to be given back
   * and asked for again.
   */
  def mayBegin: Boolean = true

  /** The number of permits that may be out at this moment; `Int.MaxValue` if that is not limited. */
  def limitNow: Int = Int.MaxValue
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
  def told(@unused unit: Int, @unused said: Told): Unit = ()

  /** Lets nobody begin for this time in ns, over all that share a limit. */
  def pause(@unused nanos: Long): Unit = ()

  /** Ends the attempt. */
  def release(): Unit

  /** Gives back the permit of an attempt that did not begin. */
  def unused(): Unit = release()
}

private[pillarbox] object CallGate {

  /** No limit; operators don't ask it. */
  val Unlimited: CallGate = new CallGate {
    override def tryAcquire(waiter: Runnable): Boolean = true
    override private[metered] def tryNow(waiter: Runnable): Boolean = true
    override def cancel(waiter: Runnable): Boolean = false
    override def release(): Unit = ()
  }

  /** Applies several limits of calls. */
  def all(gates: CallGate*): CallGate = ofUnits(gates.map(_ -> Calls))

  /**
   * Applies several limits.
   *
   * @param gates each with the number of its unit, in which the amounts are reported; `Calls` for calls
   * @param ofValue those that hold for one value of a key; what the service says is of these, if any hears it
   */
  def ofUnits(gates: Seq[(CallGate, Int)], ofValue: CallGate => Boolean = _ => false): CallGate =
    gates.filterNot(_._1 eq Unlimited) match {
      case Seq() => Unlimited
      // A permit may go back unused: a rate of a value, and a breaker, take it back from a claim alone.
      case Seq((gate, Calls)) if !ofValue(gate) && !gate.isInstanceOf[BreakerGate] => gate
      case several =>
        new CompositeGate(
          several.map(_._1).toArray,
          several.map(_._2).toArray,
          several.map(part => ofValue(part._1)).toArray
        )
    }

  /** The unit of limits that count calls. */
  final val Calls = -1
}

/**
 * What the service has said of a limit.
 *
 * @param remaining the amount that is left
 * @param resetNanos the time from now until all of it is there again; [[Told.NoReset]] if that was not said
 */
private[pillarbox] final case class Told(remaining: Double, resetNanos: Long)

private[pillarbox] object Told {

  /** In the place of a time that the service has not told. */
  final val NoReset = Long.MaxValue
}
