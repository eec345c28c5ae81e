package io.pillarbox.spark.async

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.metered.budget.{BudgetPart, BudgetTerms}

/** A task's hold on a budget. Closed once the task's calls have ended. */
private[pillarbox] final class HeldBudget private[async] (val part: BudgetPart, release: () => Unit)
    extends AutoCloseable {
  private var isHeld = true

  override def close(): Unit = if (isHeld) {
    isHeld = false
    release()
  }
}

/**
 * The parts of budgets that all tasks of an executor share, by key. A part that no task holds gives back what
 * it has, and is forgotten after ten minutes, when the driver knows all that it has spent. Thread-safe.
 *
 * @param nanoTime from an arbitrary origin
 */
private[pillarbox] final class ExecutorBudgets(
    nanoTime: () => Long,
    make: (String, BudgetTerms) => BudgetPart
) {
  import ExecutorBudgets._

  private val parts = mutable.HashMap.empty[String, Shared]

  def hold(key: String, terms: BudgetTerms): HeldBudget = synchronized {
    val now = nanoTime()
    parts.filterInPlace((_, shared) => shared.holders > 0 || now - shared.releasedNanos < KeepNanos)
    val shared = parts.getOrElseUpdate(key, new Shared(make(key, terms)))
    shared.holders += 1
    new HeldBudget(shared.part, () => release(shared))
  }

  /** The number of parts that are held or not yet forgotten. */
  private[async] def size: Int = synchronized(parts.size)

  private def release(shared: Shared): Unit = {
    val isLast = synchronized {
      shared.holders -= 1
      shared.releasedNanos = nanoTime()
      shared.holders == 0
    }
    if (isLast) shared.part.release()
  }
}

private object ExecutorBudgets {
  private val KeepNanos = TimeUnit.MINUTES.toNanos(10)

  private final class Shared(val part: BudgetPart) {
    var holders = 0
    var releasedNanos = 0L
  }
}
