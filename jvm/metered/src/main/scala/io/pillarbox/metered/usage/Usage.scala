package io.pillarbox.metered.usage

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.{AtomicIntegerArray, DoubleAdder}

import scala.jdk.CollectionConverters._

/**
 * The units in which an operator's calls report what they use, such as tokens. Amounts by unit are in their
 * order; those of units that calls report and the operator does not name come after them.
 */
private[pillarbox] final case class UsageUnits(names: Seq[String])

private[pillarbox] object UsageUnits {
  val None: UsageUnits = UsageUnits(Nil)

  /** True for a finite number from 0 on. */
  def isAmount(amount: Double): Boolean = amount >= 0 && !amount.isInfinite
}

/** Amounts by unit, whose sums go up to the largest double. Any thread. */
private[pillarbox] final class Usage(units: UsageUnits) {
  import Usage._

  private val sums = units.names.map(_ => new DoubleAdder).toArray

  private val isReported = new AtomicIntegerArray(sums.length)

  /** Those of other units; most operators have none. */
  @volatile private var others: ConcurrentHashMap[String, DoubleAdder] = _

  def add(unit: String, amount: Double): Unit = {
    val index = units.names.indexOf(unit)
    if (index < 0) addOther(unit, amount)
    else {
      sums(index).add(amount)
      isReported.set(index, 1)
    }
  }

  private def addOther(unit: String, amount: Double): Unit = synchronized {
    if (others eq null) others = new ConcurrentHashMap
    val name = if (others.size < MostOthers || others.containsKey(unit)) unit else Rest
    others.computeIfAbsent(name, _ => new DoubleAdder).add(amount)
  }

  /** Adds all that was reported there. */
  def addAll(other: Usage): Unit = other.amounts.foreach { case (unit, amount) => add(unit, amount) }

  /** The sum of the unit with this index so far. */
  def apply(unit: Int): Double = sumOf(sums(unit))

  /** The same; NaN if nothing was added. */
  def ifReported(unit: Int): Double = if (isReported.get(unit) == 1) this(unit) else Double.NaN

  /** The units of which something was reported, with their sums so far. */
  def amounts: Seq[(String, Double)] =
    units.names.indices.collect {
      case unit if isReported.get(unit) == 1 => units.names(unit) -> this(unit)
    } ++ undeclared

  /** Those of units that the operator does not name, by name. */
  def undeclared: Seq[(String, Double)] =
    if (others eq null) Nil
    else others.asScala.iterator.map { case (unit, sum) => unit -> sumOf(sum) }.toSeq.sortBy(_._1)
}

private object Usage {
  private def sumOf(adder: DoubleAdder) = math.min(adder.sum, Double.MaxValue)

  /** Names that calls make up are not to fill the memory. */
  private final val MostOthers = 100
  private final val Rest = "other units"
}
