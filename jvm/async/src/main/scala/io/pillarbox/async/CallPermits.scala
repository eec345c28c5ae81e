package io.pillarbox.async

import java.util
import java.util.concurrent.{Executor, RejectedExecutionException, TimeUnit}

import scala.util.control.NonFatal

import io.pillarbox.api.{AsyncTimeoutException, RetryAfter}
import io.pillarbox.metered.budget.{BudgetExceeded, BudgetExceededException, BudgetPart}
import io.pillarbox.metered.limit.{CallWaiter, Feedback, Limiter, Permit}

/**
 * Lets attempts begin that another process makes, under a budget and limits: it asks for each of them by a
 * number of its own, and tells how they end.
 *
 * An attempt is charged to the budget and then waits for its permit, in order. However many wait, one stands
 * in line at the gate, so that tasks that share a limit have equal parts of it. Nothing here blocks.
 *
 * @param executor runs one thing after the other, by which all methods here are called too, and refuses more
 *   once this is closed. Waiters, which run on any thread, use it
 */
private[pillarbox] final class CallPermits(
    gate: Limiter,
    budget: Option[BudgetPart],
    metrics: AsyncMetrics,
    executor: Executor,
    answer: CallPermits.Answer
) {
  private val asked = new util.HashMap[Long, Asked]
  private val unfunded = new util.ArrayDeque[Asked]
  private val line = new util.ArrayDeque[Asked]

  /** The one that stands in line at the gate, or null. */
  private var waiter: Waiter = _

  private val funder: Runnable = () =>
    try executor.execute(() => fund())
    catch { case _: RejectedExecutionException => () }

  /** The budget's units among the operator's; negative for one that is counted without reports. */
  private val budgetUnits =
    budget.toIndexedSeq.flatMap(part => (0 until part.terms.units).map(part.terms.unit)).map(unitOf)

  private def unitOf(name: String): Int = metrics.units.names.indexOf(name)

  /**
   * Asks for an attempt.
   *
   * @param charges the amounts to charge in the gate's limits; null if they count calls alone
   */
  def ask(id: Long, charges: Array[Double]): Unit = {
    val one = new Asked(id, charges)
    asked.put(id, one)
    unfunded.addLast(one)
    fund()
  }

  private def fund(): Unit = {
    var isWaiting = false
    while (!isWaiting && dropGone(unfunded)) {
      val granted = budget.fold[AnyRef](null)(_.take(funder))
      isWaiting = granted eq BudgetPart.Wait
      if (!isWaiting) decide(unfunded.pollFirst(), granted)
    }
    advance()
  }

  private def decide(one: Asked, granted: AnyRef): Unit = granted match {
    case exceeded: BudgetExceeded =>
      asked.remove(one.id)
      answer.refused(one.id, new BudgetExceededException(exceeded))
    case _ =>
      one.isFunded = true
      line.addLast(one)
  }

  private def advance(): Unit = {
    while (waiter == null && dropGone(line)) {
      val next = new Waiter(line.peekFirst())
      if (gate.tryAcquire(next)) begin(line.pollFirst(), next.taken)
      else {
        waiter = next
        metrics.limitWait.markStart()
      }
    }
    if (line.isEmpty) metrics.limitWait.markEnd() else metrics.limitWait.lap()
  }

  private def begin(one: Asked, permit: Permit): Unit = {
    one.permit = permit
    one.startNanos = System.nanoTime
    answer.begins(one.id)
  }

  /** Drops what nobody asks for any more from the head; true if something is left. */
  private def dropGone(queue: util.ArrayDeque[Asked]): Boolean = {
    while (!queue.isEmpty && queue.peekFirst().isGone) queue.pollFirst()
    !queue.isEmpty
  }

  /**
   * Begins the first attempt in line, unless a pause has come meanwhile, or the permit was granted for one
   * that is gone and is charged otherwise.
   */
  private def granted(by: Waiter): Unit = {
    waiter = null
    val fits = dropGone(line) && gate.mayBegin && (by.one.charges == null || (line.peekFirst() eq by.one))
    if (fits) begin(line.pollFirst(), by.taken) else by.taken.unused()
    advance()
  }

  /**
   * Ends an attempt that has begun; without effect for another one.
   *
   * @param used what it has reported by unit, NaN for nothing
   * @param error null for an answer
   */
  def ended(id: Long, used: Int => Double, error: Throwable): Unit = {
    val one = asked.get(id)
    if (one != null && one.permit != null) {
      asked.remove(id)
      one.permit.observe(one.startNanos, error)
      settle(one, used, isKnown = !error.isInstanceOf[AsyncTimeoutException], error)
    }
  }

  /**
   * Ends an attempt that nobody wants any more.
   *
   * @param hasBegun false if it was given up before the other process heard that it may begin
   */
  def gaveUp(id: Long, hasBegun: Boolean, used: Int => Double): Unit = {
    val one = asked.remove(id)
    if (one != null) {
      if (one.permit == null) leave(one)
      else if (hasBegun) settle(one, used, isKnown = false, null)
      else {
        one.permit.unused()
        budget.foreach(_.notBegun())
      }
    }
  }

  private def settle(one: Asked, used: Int => Double, isKnown: Boolean, error: Throwable): Unit = {
    if (metrics.units.names.indices.exists(unit => !used(unit).isNaN)) one.permit.used(used)
    pauseAll(one.permit, error)
    one.permit.release()
    budget.foreach(_.ended(at => amount(used, budgetUnits(at)), isKnown))
  }

  private def amount(used: Int => Double, unit: Int): Double =
    if (unit < 0 || used(unit).isNaN) 0.0 else used(unit)

  /** Lets the whole limit wait if the failure says so. */
  private def pauseAll(permit: Permit, error: Throwable): Unit = error match {
    case own: RetryAfter =>
      try if (own.all) permit.pause(TimeUnit.MILLISECONDS.toNanos(own.retryAfterMs))
      catch { case NonFatal(_) => () }
    case _ => ()
  }

  private def leave(one: Asked): Unit = {
    one.isGone = true
    if (one.isFunded) budget.foreach(_.notBegun())
    if (!dropGone(unfunded)) budget.foreach(_.forget(funder))
    dropGone(line)
    // One for another in line would wait for the charges of this one. A permit that is on its way is given back.
    if (waiter != null && waiter.one.isGone && gate.cancel(waiter)) waiter = null
    advance()
  }

  /** Takes note of what the service says of a limit in an attempt, by the number of the unit. */
  def told(id: Long, unit: Int, said: Feedback): Unit = ofBegun(id)(_.told(unit, said))

  /** Lets nobody begin for this time in ns, under all limits of an attempt. */
  def pause(id: Long, nanos: Long): Unit = ofBegun(id)(_.pause(nanos))

  private def ofBegun(id: Long)(tell: Permit => Unit): Unit = {
    val one = asked.get(id)
    if (one != null && one.permit != null) tell(one.permit)
  }

  /** Tells that a row that was called for has its answer, or has failed. */
  def rowEnded(isFailed: Boolean): Unit = budget.foreach(_.rowEnded(isFailed))

  /** Gives all back. */
  def close(): Unit =
    new util.ArrayList(asked.keySet).forEach(gaveUp(_, hasBegun = true, _ => Double.NaN))

  private final class Asked(val id: Long, val charges: Array[Double]) {
    var isFunded = false
    var isGone = false

    /** Null until it begins. */
    var permit: Permit = _
    var startNanos = 0L
  }

  private final class Waiter(val one: Asked) extends CallWaiter {
    @volatile override var permit: Permit = _

    override def estimate(limit: Int): Double = one.charges(limit)

    def taken: Permit = if (permit == null) gate else permit

    override def run(): Unit =
      try executor.execute(() => granted(this))
      catch { case _: RejectedExecutionException => taken.unused() }
  }
}

private[pillarbox] object CallPermits {

  /** Hears which attempts may begin. On the thread of the executor. */
  trait Answer {
    def begins(id: Long): Unit
    def refused(id: Long, reason: Throwable): Unit
  }
}
