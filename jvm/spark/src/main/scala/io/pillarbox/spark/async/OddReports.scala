package io.pillarbox.spark.async

import io.pillarbox.metered.usage.UsageUnits
import io.pillarbox.spark.base.ErrorCatalogue
import io.pillarbox.spark.task.FailedCalls

/**
 * Tells what was wrong with reports of use by functions of the JVM. Any thread.
 *
 * `python/src/pillarbox/_metered/calls.py` tells the same of those in Python.
 */
private[async] final class OddReports(spec: AsyncIOSpec, failed: FailedCalls) {

  def tell(unit: String, amount: Double): Unit = {
    if (spec.form == "jvm" && !spec.units.contains(unit)) note("UNKNOWN_UNIT", unit, "units" -> units)
    if (!UsageUnits.isAmount(amount)) {
      val parameters = Seq("expected" -> "a number", "value" -> amount, "counted" -> 0)
      note("INVALID_USAGE", unit, parameters: _*)
    }
  }

  private def units = if (spec.units.isEmpty) "none" else spec.units.mkString(", ")

  private def note(condition: String, unit: String, parameters: (String, Any)*): Unit =
    failed.attempt(s"$condition $unit") {
      val all = parameters ++ Seq("unit" -> unit, "operator" -> spec.name)
      s"${spec.operator}: [$condition] ${ErrorCatalogue.text(condition, all: _*)}"
    }
}
