package io.pillarbox.async

import java.util.concurrent.atomic.{AtomicIntegerArray, DoubleAdder}

/**
 * The units in which an operator's calls report what they use, such as tokens. Amounts by unit are in their
 * order.
 */
private[pillarbox] final case class UsageUnits(names: Seq[String]) {

  /** @throws IllegalArgumentException if there is no such unit, or the amount is no finite number from 0 on */
  def indexOf(unit: String, amount: Double): Int = {
    val index = names.indexOf(unit)
    require(
      index >= 0,
      s"The operator has no unit $unit; it has ${if (names.isEmpty) "none" else names.mkString(", ")}. " +
        "Name it in usage."
    )
    // Not so for a value that is no number, either.
    require(
      amount >= 0 && !amount.isInfinite,
      s"An amount of $unit is a finite number from 0 on, not $amount"
    )
    index
  }
}

private[pillarbox] object UsageUnits {
  val None: UsageUnits = UsageUnits(Nil)
}

/** Amounts by unit, whose sums go up to the largest double. Any thread. */
private[pillarbox] final class Usage(units: UsageUnits) {
  private val sums = units.names.map(_ => new DoubleAdder).toArray

  private val isReported = new AtomicIntegerArray(sums.length)

  def add(unit: Int, amount: Double): Unit = {
    sums(unit).add(amount)
    isReported.set(unit, 1)
  }

  /** The sum of the unit with this index so far. */
  def apply(unit: Int): Double = math.min(sums(unit).sum, Double.MaxValue)

  /** The same; NaN if nothing was added. */
  def ifReported(unit: Int): Double = if (isReported.get(unit) == 1) this(unit) else Double.NaN

  /** The units of which something was reported, with their sums so far. */
  def amounts: Seq[(String, Double)] =
    units.names.indices.collect { case unit if isReported.get(unit) == 1 => units.names(unit) -> this(unit) }
}
