package io.pillarbox.async.gate

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

  /**
   * Takes the waiter out of the line. True if it won't be run. False if it was run or will be, and has a
   * permit, unless it never stood in line.
   */
  def cancel(waiter: Runnable): Boolean

  /** Gives a permit back, once for each that was taken. */
  override def release(): Unit

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

  /** Ends the attempt. */
  def release(): Unit
}

private[pillarbox] object CallGate {

  /** No limit; operators don't ask it. */
  val Unlimited: CallGate = new CallGate {
    override def tryAcquire(waiter: Runnable): Boolean = true
    override def cancel(waiter: Runnable): Boolean = false
    override def release(): Unit = ()
  }

  /**
   * Applies both limits. The first is acquired before the second: put the limit of concurrency first and that
   * of the rate second, so that a call starts as soon as the rate admits it.
   */
  def both(first: CallGate, second: CallGate): CallGate =
    if (first eq Unlimited) second
    else if (second eq Unlimited) first
    else new CompositeGate(first, second)
}
