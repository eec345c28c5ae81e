package io.pillarbox.spark.async

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.metered.lease.{LeaseTerms, LeasedGate}
import io.pillarbox.metered.limit._

/**
 * A limit, or that of one value of its key, with those in this executor that hold it. Under the lock of
 * [[ExecutorGates]], but for its gates.
 *
 * @param lend asks the driver for a part of it
 */
private[async] final class SharedLimit(spec: LimitSpec, lend: LeaseTerms => LeasedGate) {
  import SharedLimit._

  private val lent = Option.when(spec.isLent)(lend(termsOf(spec)))

  private val rate = Option.when(!spec.isLent)(spec.rate).flatten.map { rate =>
    val (most, nanos) = rate.amountIn(spec.isOfUse)
    new RateGate(most, nanos)
  }

  val breaker: Option[BreakerGate] = spec.breaker.map { breaker =>
    val pauseNanos = TimeUnit.MILLISECONDS.toNanos(breaker.pauseMs)
    new BreakerGate(breaker.failures, pauseNanos, ServiceOverload, GateClock.System)
  }

  val gates: Seq[CallGate] =
    breaker.toSeq ++ (if (spec.isLent) lent else spec.concurrency.map(ofConcurrency) ++ rate)

  private def ofConcurrency(max: Int): CallGate =
    if (spec.adaptive) new AdaptiveGate(max, ServiceOverload, GateClock.System)
    else new ConcurrencyGate(max)

  /** A lent gate returns its part in the background, which must be over before there is another one. */
  private val keepNanos: Long = math.max(
    rate.fold(spec.rate.fold(0L)(_.amountIn(spec.isOfUse)._2))(_.fillNanos),
    if (spec.adaptive || spec.isLent || spec.breaker.isDefined) LearnedNanos else 0L
  )

  private val holders = mutable.ArrayBuffer.empty[AnyRef]
  private var releasedNanos = 0L

  def hold(holder: AnyRef): Unit = holders += holder

  def release(holder: AnyRef, now: Long): Unit = {
    holders -= holder
    releasedNanos = now
  }

  /** True if nobody holds it, and a new one would let through just as much. */
  def isOver(now: Long): Boolean = isIdle && (isOutdated(now) || isReturned)

  /** True if nobody has held it for so long that what it has learned counts no more. */
  def isOutdated(now: Long): Boolean = isIdle && now - releasedNanos >= keepNanos

  private def isIdle = holders.isEmpty && gates.forall(_.mayBegin) && !rate.exists(_.isBound)

  /** Of a value that has no calls the driver has heard the last: it has many, and lends another part at once. */
  private def isReturned =
    spec.key.isDefined && spec.breaker.isEmpty && lent.exists(_.isReturned)

  /** Divides the limit so that the shares of all holders add up to it; 0 if it allows any number. */
  def shareOf(holder: AnyRef): Long = {
    val (place, all) = (holders.indexOf(holder), holders.size)
    val limit = gates.iterator.map(_.limitNow).min.toLong
    if (place < 0 || limit == Int.MaxValue) 0L else limit * (place + 1) / all - limit * place / all
  }
}

private object SharedLimit {

  /** The time for which a gate keeps what it has learned of its service. */
  private val LearnedNanos = TimeUnit.MINUTES.toNanos(10)

  private def termsOf(spec: LimitSpec) = {
    val (most, nanos) = spec.rate.fold((0.0, 1L))(_.amountIn(spec.isOfUse))
    LeaseTerms(spec.concurrency.getOrElse(0), spec.adaptive, most, nanos)
  }
}
