package io.pillarbox.spark.async

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.metered.limit._

/**
 * A limit, or that of one value of its key, with those in this executor that hold it. Under the lock of
 * [[ExecutorLimits]], but for the limit.
 *
 * @param lend asks the driver for a part of it
 */
private[async] final class SharedLimit(spec: LimitSpec, lend: (LimitTerms, Breaker) => Limit) {
  val limit: Limit = {
    val (most, nanos) = spec.rate.fold((0.0, 1L))(_.amountIn(spec.isOfUse))
    val terms = LimitTerms(spec.concurrency.getOrElse(0), spec.adaptive, most, nanos)
    val breaker = spec.breaker.map { one =>
      new Breaker(one.failures, TimeUnit.MILLISECONDS.toNanos(one.pauseMs))
    }
    if (spec.isLent) lend(terms, breaker.orNull)
    else new LocalLimit(terms, ServiceOverload, LimitClock.System, breaker.orNull)
  }

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
  def isOutdated(now: Long): Boolean = isIdle && now - releasedNanos >= limit.keepNanos

  private def isIdle = holders.isEmpty && !limit.isBound

  /** Of a value that has no calls the driver has heard the last: it has many, and lends another part at once. */
  private def isReturned = spec.key.isDefined && spec.breaker.isEmpty && limit.isReturned

  /** Divides the limit so that the shares of all holders add up to it; 0 if it allows any number. */
  def shareOf(holder: AnyRef): Long = {
    val (place, all) = (holders.indexOf(holder), holders.size)
    val most = limit.limitNow.toLong
    if (place < 0 || most == Int.MaxValue) 0L else most * (place + 1) / all - most * place / all
  }
}
