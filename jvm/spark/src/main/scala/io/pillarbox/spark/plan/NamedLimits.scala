package io.pillarbox.spark.plan

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.spark.async.{AsyncIOSpec, Lending, LimitSpec}
import io.pillarbox.spark.base.FailureReport
import io.pillarbox.spark.task.ReportedException
import org.apache.spark.sql.catalyst.expressions.Attribute

/** The limits that operators share by name: one name has one set of figures. On the driver. Thread-safe. */
private object NamedLimits {
  private val known = mutable.HashMap.empty[(String, String), Use]

  /** The time within which an operator that is about to run has used its limit. */
  private val StartNanos = TimeUnit.SECONDS.toNanos(30)

  private final case class Use(operator: String, figures: Set[LimitSpec], atNanos: Long)

  /** The key of a limit that operators share. */
  def key(name: String): String = s"name/$name"

  /**
   * Takes note that an operator is about to run.
   *
   * @param keys the columns that are keys of its limits, of each that has one
   * @throws ReportedException if another one uses a limit of the same name with other figures, or has
   *   used it, and that still counts
   */
  def use(spec: AsyncIOSpec, keys: Seq[Attribute] = Nil): Unit = synchronized {
    val now = System.nanoTime()
    val types = keys.map(column => s"<${column.dataType.catalogString}>").iterator
    val named = spec.limits
      .map(limit => limit.figures(if (limit.key.isDefined) types.next() else ""))
      .filter(_.name.isDefined)
      .groupBy(limit => (limit.name.get, limit.unit))
    named.foreach { case ((name, unit), limits) =>
      val figures = limits.toSet
      known.get((name, unit)).filter(_.figures != figures).foreach { other =>
        if (isInUse(name, unit, other, now)) throw differ(name, other, spec.operator, figures)
      }
      known((name, unit)) = Use(spec.operator, figures, now)
    }
  }

  private def isInUse(name: String, unit: String, use: Use, now: Long): Boolean =
    now - use.atNanos < StartNanos ||
      Lending.isInUse(key(name) + (if (unit == LimitSpec.Calls) "" else s"/$unit"))

  private def differ(name: String, other: Use, operator: String, figures: Set[LimitSpec]) =
    new ReportedException(
      FailureReport.of(
        "NAMED_LIMITS_DIFFER",
        operator,
        "name" -> name,
        "other" -> other.operator,
        "others" -> shown(other.figures),
        "operator" -> operator,
        "own" -> shown(figures)
      )
    )

  private def shown(figures: Set[LimitSpec]): String = figures.map(_.summary).toSeq.sorted.mkString(", ")
}
