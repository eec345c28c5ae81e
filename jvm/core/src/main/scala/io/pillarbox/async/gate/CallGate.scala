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
   * True: the caller has a permit. False: the waiter stands in line, and will be run once, on any thread,
   * when it has been given a permit, which may be before this returns. A waiter stands in line once at a
   * time.
   */
  def tryAcquire(waiter: Runnable): Boolean

  /**
   * Takes the waiter out of the line. True: it won't be run. False: it was run or will be, and has a permit,
   * unless it never stood in line.
   */
  def cancel(waiter: Runnable): Boolean

  /** Gives a permit back, once for each that was got. */
  override def release(): Unit

  /**
   * Whether an attempt that has its permit may begin at this moment. If not, the permit is to be given back
   * and asked for again.
   */
  def mayBegin: Boolean = true

  /** How many permits may be out at this moment; `Int.MaxValue` if that is not limited. */
  def limitNow: Int = Int.MaxValue
}

/** What an attempt holds while it runs. Any thread. */
private[pillarbox] trait Permit {

  /**
   * Told how an attempt ended, before its permit is released; not told of one that was cancelled.
   *
   * @param startNanos
   *   when the attempt began
   * @param error
   *   null for an answer
   */
  def observe(@unused startNanos: Long, @unused error: Throwable): Unit = ()

  /** The attempt has ended. */
  def release(): Unit
}

private[pillarbox] object CallGate {

  /** No limit; operators don't even ask. */
  val Unlimited: CallGate = new CallGate {
    override def tryAcquire(waiter: Runnable): Boolean = true
    override def cancel(waiter: Runnable): Boolean = false
    override def release(): Unit = ()
  }

  /**
   * Both limits at once. The first is acquired before the second: put the limit of concurrency first and that
   * of the rate second, so that a call starts as soon as the rate admits it.
   */
  def both(first: CallGate, second: CallGate): CallGate =
    if (first eq Unlimited) second
    else if (second eq Unlimited) first
    else new CompositeGate(first, second)
}
