package io.pillarbox.spark.async

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.async.gate.{CallGate, ConcurrencyGate, RateGate}

/** A task's part in a limit that it shares with others. Closed once the task has given all permits back. */
private[pillarbox] final class HeldGate private[async] (val gate: CallGate, release: () => Unit)
    extends AutoCloseable {
  private var isHeld = true

  override def close(): Unit = if (isHeld) {
    isHeld = false
    release()
  }
}

/**
 * The limits that all tasks of one operator share in an executor, by the operator's id. Thread-safe.
 *
 * A gate lives as long as a task holds it. One that limits a rate lives on until a new one would let through
 * just as much, so that the rate holds over micro-batches.
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
        val shared = gates.getOrElseUpdate(Key(operatorId, spec.maxConcurrency, spec.rate), new Shared(spec))
        shared.holders += 1
        new HeldGate(shared.gate, () => release(shared))
      }

  /** Gates that are there, held or not yet forgotten. */
  private[async] def size: Int = synchronized {
    forgetUnused()
    gates.size
  }

  private def release(shared: Shared): Unit = synchronized {
    shared.holders -= 1
    shared.releasedNanos = nanoTime()
  }

  private def forgetUnused(): Unit = {
    val now = nanoTime()
    gates.filterInPlace((_, shared) =>
      shared.holders > 0 || now - shared.releasedNanos < shared.keepNanos
    ): Unit
  }
}

private[pillarbox] object ExecutorGates {

  /** Those of this executor. */
  val ofProcess: ExecutorGates = new ExecutorGates(() => System.nanoTime())

  private val Ungated = new HeldGate(CallGate.Unlimited, () => ())

  private final case class Key(operatorId: String, maxConcurrency: Option[Int], rate: Option[RateSpec])

  private final class Shared(spec: AsyncIOSpec) {
    private val rate = spec.rate.map { limit =>
      new RateGate(limit.permits, TimeUnit.MILLISECONDS.toNanos(limit.intervalMs))
    }
    val keepNanos: Long = rate.fold(0L)(_.fillNanos)
    val gate: CallGate = CallGate.both(
      spec.maxConcurrency.fold(CallGate.Unlimited)(new ConcurrencyGate(_)),
      rate.getOrElse(CallGate.Unlimited)
    )
    var holders = 0
    var releasedNanos = 0L
  }
}
