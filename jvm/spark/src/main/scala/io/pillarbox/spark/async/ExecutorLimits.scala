package io.pillarbox.spark.async

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.metered.lease.LimitKey
import io.pillarbox.metered.limit.{Breaker, Limit, LimitTerms}

/**
 * The limits that tasks share in an executor, by their keys. Thread-safe.
 *
 * A limit lives as long as a task holds it. One of a rate lives on until a new one would let through
 * just as much, so that the rate holds over micro-batches; an adaptive one keeps what it has learned for ten
 * minutes, and a pause for its whole length. Of a limit that has a key the same holds for each of its values,
 * which is held as long as it has calls.
 *
 * @param nanoTime from an arbitrary origin
 * @param lend asks the driver for a part of a limit that more than this executor shares
 */
private[pillarbox] final class ExecutorLimits(
    nanoTime: () => Long,
    lend: (LimitKey, LimitTerms, Breaker) => Limit
) {
  import ExecutorLimits._

  private val limits = mutable.HashMap.empty[(LimitKey, LimitSpec), SharedLimit]
  private var sweptNanos = nanoTime()
  private var sweptSize = 0

  /** Takes a share in the limits of a task's operator. */
  def hold(task: AsyncIOTaskSpec): HeldLimits = hold(task.site.limitKeys, task.spec.limits, task.spec.units)

  /**
   * Takes a share in limits. Others under the same key are limits of their own.
   *
   * @param limitKeys the key of each limit
   * @param units those in which calls report what they use
   * @throws IllegalArgumentException if a limit is there twice: its second permit could never be had
   */
  private[async] def hold(limitKeys: Seq[String], limits: Seq[LimitSpec], units: Seq[String]): HeldLimits = {
    val places = limitKeys.zip(limits.map(_.figures()))
    require(places.distinct.size == places.size, s"A limit is there twice: ${limits.map(_.summary)}")
    new HeldLimits(this, limitKeys, limits, units)
  }

  /** Takes a share in one limit. */
  private[async] def share(key: LimitKey, limit: LimitSpec, holder: AnyRef): SharedLimit = synchronized {
    val now = nanoTime()
    sweepSometimes(now)
    val place = (key, limit.figures())
    // One that is as good as new goes on, and stays the same one for the driver.
    if (limits.get(place).exists(_.isOutdated(now))) limits.remove(place): Unit
    def made = new SharedLimit(limit, lend(key, _, _))
    // A task's own is kept by the task; its values are kept as those of others are.
    val isOwn = limit.scope == LimitScope.Task && limit.key.isEmpty
    val shared = if (isOwn) made else limits.getOrElseUpdate(place, made)
    shared.hold(holder)
    shared
  }

  private[async] def release(limits: Iterable[SharedLimit], holder: AnyRef): Unit = synchronized {
    limits.foreach(_.release(holder, nanoTime()))
  }

  /** The number of limits that are held or not yet forgotten. */
  private[async] def size: Int = synchronized {
    sweep(nanoTime())
    limits.size
  }

  /** Looks at all only when there are twice as many as last, or after ten seconds: a key may have many values. */
  private def sweepSometimes(now: Long): Unit =
    if (limits.size >= 2 * math.max(sweptSize, LeastSwept) || now - sweptNanos >= SweepNanos) sweep(now)

  private def sweep(now: Long): Unit = {
    limits.filterInPlace((_, shared) => !shared.isOver(now)): Unit
    sweptNanos = now
    sweptSize = limits.size
  }
}

private[pillarbox] object ExecutorLimits {

  val ofProcess: ExecutorLimits = new ExecutorLimits(() => System.nanoTime(), Lending.borrow(_, _, _))

  private val SweepNanos = TimeUnit.SECONDS.toNanos(10)
  private final val LeastSwept = 64
}
