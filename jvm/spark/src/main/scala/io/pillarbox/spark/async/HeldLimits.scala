package io.pillarbox.spark.async

import java.util.UUID

import scala.collection.mutable

import io.pillarbox.async.ValueLimiter
import io.pillarbox.metered.lease.{LimitKey, LimitValue}
import io.pillarbox.metered.limit.Limiter
import org.apache.spark.sql.catalyst.expressions.Expression

/**
 * A task's share of its limits. Closed once the task has given all permits back. For one thread; any thread
 * may ask for the counts of breakers.
 *
 * @param keys those of the limits, in their order
 * @param units those in which calls report what they use
 */
private[pillarbox] final class HeldLimits private[async] (
    executor: ExecutorLimits,
    keys: Seq[String],
    limits: Seq[LimitSpec],
    units: Seq[String]
) extends AutoCloseable {
  private lazy val ownName = UUID.randomUUID().toString
  private var isHeld = true
  private val values = mutable.LinkedHashSet.empty[HeldValue]
  private var openings = 0
  private var openNanos = 0L

  /** The limits without a key, by their place in the order. */
  private val common: Map[Int, SharedLimit] = share(_.key.isEmpty, _ => None)(this)

  /** Their limiter: that of all calls, unless there are limits with a key, whose values are opened. */
  val limiter: Limiter = limiterOf(common)

  /**
   * Returns all limits of calls with these values.
   *
   * @param ofLimits the value of each limit that has a key, in their order
   */
  def open(ofLimits: Seq[LimitValue]): ValueLimiter = {
    val keyed = limits.indices.filter(limits(_).key.isDefined)
    val opened = new HeldValue(keyed.zip(ofLimits).toMap)
    values.synchronized(values += opened): Unit
    opened
  }

  private def share(isMeant: LimitSpec => Boolean, value: Int => Option[LimitValue])(holder: AnyRef) =
    limits.indices
      .filter(i => isMeant(limits(i)))
      .map(i => i -> executor.share(LimitKey(keyOf(i), value(i)), limits(i), holder))
      .toMap

  /** A limit of a task is shared with no other; its values are kept as others are. */
  private def keyOf(limit: Int) =
    if (limits(limit).scope == LimitScope.Task) s"${keys(limit)}/$ownName" else keys(limit)

  private def limiterOf(shared: Map[Int, SharedLimit], ofValue: Set[Int] = Set.empty): Limiter = {
    val parts = limits.indices.filter(shared.contains).map { i =>
      shared(i).limit -> (if (limits(i).isOfUse) units.indexOf(limits(i).unit) else Limiter.Calls)
    }
    val own = ofValue.map(shared(_).limit: Limiter)
    Limiter.ofUnits(parts, own.contains)
  }

  /** The calls that the limits allow at a time now, divided by their holders; 0 if they allow any number. */
  def limitShare: Long = executor.synchronized {
    common.values.map(_.shareOf(this)).filter(_ > 0).minOption.getOrElse(0L)
  }

  /** Returns what the limits charge calls with, for one thread; none if they count calls alone. */
  def charges(operator: String, estimates: Seq[Expression]): Option[LimitCharges] =
    Option.when(limits.exists(_.isOfUse))(
      new LimitCharges(operator, limits, estimates)
    )

  /**
   * Gives how often the service's overload has stopped calls, and the ns for which, to the first of the
   * holders that asks.
   */
  def takeBreakerCounts(taker: (Int, Long) => Unit): Unit = {
    val (times, nanos) = values.synchronized {
      (common.values ++ values.flatMap(_.own.values)).foreach(count)
      val counted = (openings, openNanos)
      openings = 0
      openNanos = 0L
      counted
    }
    taker(times, nanos)
  }

  /** Called with the lock of `values`: one thread opens and closes them, and another asks for the counts. */
  private def count(limit: SharedLimit): Unit = limit.limit.takeBreakerCounts { (times, nanos) =>
    openings += times
    openNanos += nanos
  }

  override def close(): Unit = if (isHeld) {
    isHeld = false
    values.synchronized(values.toSeq).foreach(_.close())
    executor.release(common.values, this)
  }

  /** The limits of calls with certain values. */
  private final class HeldValue(ofLimits: Map[Int, LimitValue]) extends ValueLimiter {
    val own: Map[Int, SharedLimit] = share(_.key.isDefined, ofLimits.get)(this)

    override val limiter: Limiter = limiterOf(common ++ own, own.keySet)

    override def close(): Unit = {
      val isOpen = values.synchronized {
        val isThere = values.remove(this)
        if (isThere) own.values.foreach(count)
        isThere
      }
      if (isOpen) executor.release(own.values, this)
    }
  }
}
