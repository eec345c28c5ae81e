package io.pillarbox.spark.async

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.async.gate._
import io.pillarbox.async.lease.{LeaseTerms, LeasedGate}

/** A task's share of a limit. Closed once the task has given all permits back. */
private[pillarbox] final class HeldGate private[async] (
    val gate: CallGate,
    release: HeldGate => Unit,
    share: HeldGate => Long
) extends AutoCloseable {
  private var isHeld = true

  /** The calls that the limit allows at a time now, divided by its holders; 0 if it has none. */
  def limitShare: Long = share(this)

  override def close(): Unit = if (isHeld) {
    isHeld = false
    release(this)
  }
}

/**
 * The limits that all tasks of one operator share in an executor, by the operator's id. Thread-safe.
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

  /** Takes a share in the gate of a key. Other limits under the same key have a gate of their own. */
  def hold(limitKey: String, limit: Option[LimitSpec]): HeldGate = limit match {
    case None => Ungated
    case Some(own) if own.scope == LimitScope.Task => held(new Shared(limitKey, own))
    case Some(common) =>
      synchronized {
        forgetUnused()
        held(gates.getOrElseUpdate((limitKey, common), new Shared(limitKey, common)))
      }
  }

  private def held(shared: Shared): HeldGate = synchronized {
    val held = new HeldGate(shared.gate, release(shared, _), shareOf(shared, _))
    shared.holders += held
    held
  }

  /** The number of gates that are held or not yet forgotten. */
  private[async] def size: Int = synchronized {
    forgetUnused()
    gates.size
  }

  /** Divides the limit so that the shares of all holders add up to it. */
  private def shareOf(shared: Shared, holder: HeldGate): Long = synchronized {
    val (place, all) = (shared.holders.indexOf(holder), shared.holders.size)
    val limit = shared.gate.limitNow.toLong
    if (place < 0 || limit == Int.MaxValue) 0L else limit * (place + 1) / all - limit * place / all
  }

  private def release(shared: Shared, holder: HeldGate): Unit = synchronized {
    shared.holders -= holder
    shared.releasedNanos = nanoTime()
  }

  private def forgetUnused(): Unit = {
    val now = nanoTime()
    gates.filterInPlace((_, shared) =>
      shared.holders.nonEmpty || now - shared.releasedNanos < shared.keepNanos || !shared.gate.mayBegin
    ): Unit
  }

  private final class Shared(limitKey: String, spec: LimitSpec) {
    private val rate =
      spec.rate.map(rate => new RateGate(rate.permits, TimeUnit.MILLISECONDS.toNanos(rate.intervalMs)))

    /** A lent gate returns its part in the background, which must be over before there is another one. */
    val keepNanos: Long = math.max(
      rate.fold(0L)(_.fillNanos),
      if (spec.adaptive || spec.scope == LimitScope.Query) LearnedNanos else 0L
    )

    val gate: CallGate =
      if (spec.scope == LimitScope.Query) lend(limitKey, termsOf(spec))
      else
        CallGate.both(
          spec.concurrency.fold(CallGate.Unlimited)(ofConcurrency),
          rate.getOrElse(CallGate.Unlimited)
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

  private val Ungated = new HeldGate(CallGate.Unlimited, _ => (), _ => 0L)

  /** The time for which a gate keeps what it has learned of its service. */
  private val LearnedNanos = TimeUnit.MINUTES.toNanos(10)

  private def termsOf(spec: LimitSpec) = LeaseTerms(
    spec.concurrency.getOrElse(0),
    spec.adaptive,
    spec.rate.fold(0)(_.permits),
    spec.rate.fold(1L)(rate => TimeUnit.MILLISECONDS.toNanos(rate.intervalMs))
  )
}
