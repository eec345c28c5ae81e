package io.pillarbox.metered.limit

/**
 * The part of a call in one limit: it stands in the line of a gate, which charges it. Its fields belong to
 * the gate, under whose lock they are written, from when it asks until it is settled or given back.
 */
private[metered] abstract class Claim extends Runnable {

  /** The amount that it is to be charged with; NaN for the mean of what has been reported. */
  var asked: Double = 1.0

  /** The amount that it was charged with. */
  var charged: Double = 0.0

  /** The part of the time that its charge counts into. */
  var slot: Long = 0L

  /** What a service had said last when it was charged; see [[ToldBounds]]. */
  var heard: Long = 0L
}

private[metered] object Claim {

  /** Notes what a waiter was charged with, and where, if it is a claim. Under the gate's lock. */
  def note(waiter: Runnable, amount: Double, slot: Long, heard: Long): Unit = waiter match {
    case claim: Claim =>
      claim.charged = amount
      claim.slot = slot
      claim.heard = heard
    case _ => ()
  }
}

/** A call that asks for the permit of several limits. */
private[pillarbox] trait CallWaiter extends Runnable {

  /** The permit that it was given, if that is not the gate itself. Written before it is served. Volatile. */
  var permit: Permit

  /** The amount to charge in the limit of this number; NaN for the mean of what has been reported. */
  def estimate(limit: Int): Double
}
