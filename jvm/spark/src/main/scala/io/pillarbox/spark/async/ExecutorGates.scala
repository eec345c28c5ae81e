package io.pillarbox.spark.async

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.async.gate._

/** A task's part in a limit that it shares with others. Closed once the task has given all permits back. */
private[pillarbox] final class HeldGate private[async] (
    val gate: CallGate,
    release: HeldGate => Unit,
    share: HeldGate => Long
) extends AutoCloseable {
  private var isHeld = true

  /** The calls that the limit allows at a time now, divided by those that hold it; 0 if it has none. */
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
 * just as much, so that the rate holds over micro-batches; one that adapts keeps for some minutes what it has
 * learned.
 *
 * @param nanoTime
 *   from an arbitrary origin
 */
private[pillarbox] final class ExecutorGates(nanoTime: () => Long) {
  import ExecutorGates._

  private val gates = mutable.HashMap.empty[Key, Shared]

  /** The gate of this operator; another one for other limits under the same id. */
  def hold(operatorId: String, spec: AsyncIOSpec): HeldGate =
    if (!spec.isGated) Ungated
    else
      synchronized {
        forgetUnused()
        val key = Key(operatorId, spec.maxConcurrency, spec.rate, spec.adaptive)
        val shared = gates.getOrElseUpdate(key, new Shared(spec))
        val held = new HeldGate(shared.gate, release(shared, _), shareOf(shared, _))
        shared.holders += held
        held
      }

  /** Gates that are there, held or not yet forgotten. */
  private[async] def size: Int = synchronized {
    forgetUnused()
    gates.size
  }

  /** So that those of all holders come to the limit. */
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
      shared.holders.nonEmpty || now - shared.releasedNanos < shared.keepNanos
    ): Unit
  }
}

private[pillarbox] object ExecutorGates {

  /** Those of this executor. */
  val ofProcess: ExecutorGates = new ExecutorGates(() => System.nanoTime())

  private val Ungated = new HeldGate(CallGate.Unlimited, _ => (), _ => 0L)

  /** What a gate has learned of its service holds for so long. */
  private val LearnedNanos = TimeUnit.MINUTES.toNanos(10)

  private final case class Key(
      operatorId: String,
      maxConcurrency: Option[Int],
      rate: Option[RateSpec],
      adaptive: Boolean
  )

  private final class Shared(spec: AsyncIOSpec) {
    private val rate = spec.rate.map { limit =>
      new RateGate(limit.permits, TimeUnit.MILLISECONDS.toNanos(limit.intervalMs))
    }
    val keepNanos: Long = math.max(rate.fold(0L)(_.fillNanos), if (spec.adaptive) LearnedNanos else 0L)
    val gate: CallGate =
      CallGate.both(
        spec.maxConcurrency.fold(CallGate.Unlimited)(ofConcurrency),
        rate.getOrElse(CallGate.Unlimited)
      )

    private def ofConcurrency(max: Int): CallGate =
      if (spec.adaptive) new AdaptiveGate(max, ServiceOverload, GateClock.System)
      else new ConcurrencyGate(max)

    val holders = mutable.ArrayBuffer.empty[HeldGate]
    var releasedNanos = 0L
  }
}
