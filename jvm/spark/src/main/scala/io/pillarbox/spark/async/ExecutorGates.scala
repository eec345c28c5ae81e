package io.pillarbox.spark.async

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.async.gate._
import io.pillarbox.async.lease.{LeaseTerms, LeasedGate}
import org.apache.spark.sql.catalyst.expressions.Expression

/**
 * A task's share of its limits. Closed once the task has given all permits back.
 *
 * @param limits those of the gate, in its order
 */
private[pillarbox] final class HeldGate private[async] (
    val gate: CallGate,
    limits: Seq[LimitSpec],
    breakers: Seq[BreakerGate],
    release: HeldGate => Unit,
    share: HeldGate => Long
) extends AutoCloseable {
  private var isHeld = true

  /** The calls that the limits allow at a time now, divided by their holders; 0 if they allow any number. */
  def limitShare: Long = share(this)

  /** Returns what the limits charge calls with, for one thread; none if they count calls alone. */
  def charges(operator: String, estimates: Seq[Expression]): Option[LimitCharges] =
    Option.when(limits.exists(_.isOfUse))(new LimitCharges(operator, limits, estimates))

  /**
   * Gives how often the service's overload has stopped calls, and the ns for which, to the first of the
   * holders that asks.
   */
  def takeBreakerCounts(taker: (Int, Long) => Unit): Unit = breakers.foreach(_.takeCounts(taker))

  override def close(): Unit = if (isHeld) {
    isHeld = false
    release(this)
  }
}

/**
 * The limits that tasks share in an executor, by their keys. Thread-safe.
 *
 * A gate lives as long as a task holds it. One that limits a rate lives on until a new one would let through
 * just as much, so that the rate holds over micro-batches; an adaptive one keeps what it has learned for ten
 * minutes, and a pause for its whole length.
 *
 * @param nanoTime from an arbitrary origin
 * @param lend asks the driver for a part of a limit that more than this executor shares, by its key
 */
private[pillarbox] final class ExecutorGates(nanoTime: () => Long, lend: (String, LeaseTerms) => LeasedGate) {
  import ExecutorGates._

  private val gates = mutable.HashMap.empty[(String, LimitSpec), Shared]

  /** Takes a share in the limits of a task's operator. */
  def hold(task: AsyncIOTaskSpec): HeldGate = hold(task.site.limitKeys, task.spec.limits, task.spec.units)

  /**
   * Takes a share in the gates of limits. Other limits under the same key have gates of their own.
   *
   * @param limitKeys the key of each limit
   * @param units those in which calls report what they use
   * @throws IllegalArgumentException if a limit is there twice: its second permit could never be had
   */
  private[async] def hold(limitKeys: Seq[String], limits: Seq[LimitSpec], units: Seq[String]): HeldGate =
    if (limits.isEmpty) Ungated
    else {
      val places = limitKeys.zip(limits.map(_.figures))
      require(places.distinct.size == places.size, s"A limit is there twice: ${limits.map(_.summary)}")
      synchronized {
        forgetUnused()
        val shared = limitKeys.zip(limits).map { case (key, limit) =>
          if (limit.scope == LimitScope.Task) new Shared(key, limit)
          else gates.getOrElseUpdate((key, limit.figures), new Shared(key, limit))
        }
        val parts = for {
          (shared, limit) <- shared.zip(limits)
          gate <- shared.gates
        } yield (gate, if (limit.isOfUse) units.indexOf(limit.unit) else CallGate.Calls, limit)
        val held = new HeldGate(
          CallGate.ofUnits(parts.map { case (gate, unit, _) => gate -> unit }),
          parts.map(_._3),
          shared.flatMap(_.breaker),
          holder => shared.foreach(release(_, holder)),
          holder => shared.map(shareOf(_, holder)).filter(_ > 0).minOption.getOrElse(0L)
        )
        shared.foreach(_.holders += held)
        held
      }
    }

  /** The number of gates that are held or not yet forgotten. */
  private[async] def size: Int = synchronized {
    forgetUnused()
    gates.size
  }

  /** Divides the limit so that the shares of all holders add up to it. */
  private def shareOf(shared: Shared, holder: HeldGate): Long = synchronized {
    val (place, all) = (shared.holders.indexOf(holder), shared.holders.size)
    val limit = shared.gates.iterator.map(_.limitNow).min.toLong
    if (place < 0 || limit == Int.MaxValue) 0L else limit * (place + 1) / all - limit * place / all
  }

  private def release(shared: Shared, holder: HeldGate): Unit = synchronized {
    shared.holders -= holder
    shared.releasedNanos = nanoTime()
  }

  private def forgetUnused(): Unit = {
    val now = nanoTime()
    gates.filterInPlace((_, shared) =>
      shared.holders.nonEmpty || now - shared.releasedNanos < shared.keepNanos ||
        !shared.gates.forall(_.mayBegin)
    ): Unit
  }

  private final class Shared(limitKey: String, spec: LimitSpec) {
    private val rate =
      spec.rate.map(rate => new RateGate(rate.permits, TimeUnit.MILLISECONDS.toNanos(rate.intervalMs)))

    /** A lent gate returns its part in the background, which must be over before there is another one. */
    val keepNanos: Long = math.max(
      rate.fold(0L)(_.fillNanos),
      if (spec.adaptive || spec.isLent || spec.breaker.isDefined) LearnedNanos else 0L
    )

    val breaker: Option[BreakerGate] = spec.breaker.map { breaker =>
      val pauseNanos = TimeUnit.MILLISECONDS.toNanos(breaker.pauseMs)
      new BreakerGate(breaker.failures, pauseNanos, ServiceOverload, GateClock.System)
    }

    val gates: Seq[CallGate] = breaker.toSeq ++ (
      if (spec.isLent) Seq(lend(limitKey, termsOf(spec)))
      else spec.concurrency.map(ofConcurrency).toSeq ++ rate
    )

    private def ofConcurrency(max: Int): CallGate =
      if (spec.adaptive) new AdaptiveGate(max, ServiceOverload, GateClock.System)
      else new ConcurrencyGate(max)

    val holders = mutable.ArrayBuffer.empty[HeldGate]
    var releasedNanos = 0L
  }
}

private[pillarbox] object ExecutorGates {

  val ofProcess: ExecutorGates = new ExecutorGates(() => System.nanoTime(), LeaseLedgers.borrow(_, _))

  private val Ungated = new HeldGate(CallGate.Unlimited, Nil, Nil, _ => (), _ => 0L)

  /** The time for which a gate keeps what it has learned of its service. */
  private val LearnedNanos = TimeUnit.MINUTES.toNanos(10)

  private def termsOf(spec: LimitSpec) = LeaseTerms(
    spec.concurrency.getOrElse(0),
    spec.adaptive,
    spec.rate.fold(0.0)(_.permits),
    spec.rate.fold(1L)(rate => TimeUnit.MILLISECONDS.toNanos(rate.intervalMs))
  )
}
