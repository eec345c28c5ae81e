package io.pillarbox.spark.async

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import io.pillarbox.async.{CallGate, ConcurrencyGate, RateGate}

/**
 * The limits that all tasks of one operator share in this executor, by the operator's id.
 *
 * They outlive a task, so that a rate holds over micro-batches; one that no task has asked for in a long time is
 * forgotten.
 */
object ExecutorGates {

  final private class Shared(val gate: CallGate, val keepNanos: Long) {
    @volatile var usedNanos: Long = System.nanoTime()
  }

  private val KeepMs = TimeUnit.MINUTES.toMillis(10)
  private val byOperator = new ConcurrentHashMap[String, Shared]

  /** The gate of this operator in this executor. Any thread. */
  def of(operatorId: String, spec: AsyncIOSpec): CallGate =
    if (!spec.isGated) CallGate.Unlimited
    else {
      forgetUnused()
      val shared = byOperator.computeIfAbsent(operatorId, _ => create(spec))
      shared.usedNanos = System.nanoTime()
      shared.gate
    }

  private def create(spec: AsyncIOSpec): Shared = {
    val concurrency = spec.maxConcurrency.fold(CallGate.Unlimited)(new ConcurrencyGate(_))
    val rate = spec.rate.fold(CallGate.Unlimited) { limit =>
      new RateGate(limit.permits, TimeUnit.MILLISECONDS.toNanos(limit.intervalMs))
    }
    val keepMs = math.max(KeepMs, spec.rate.fold(0L)(_.intervalMs * 2))
    new Shared(CallGate.both(concurrency, rate), TimeUnit.MILLISECONDS.toNanos(keepMs))
  }

  private def forgetUnused(): Unit = {
    val now = System.nanoTime()
    byOperator.values.removeIf(shared => now - shared.usedNanos > shared.keepNanos)
  }
}
