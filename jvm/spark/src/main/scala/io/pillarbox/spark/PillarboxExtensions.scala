package io.pillarbox.spark

import io.pillarbox.spark.plan.PillarboxStrategy
import org.apache.spark.sql.SparkSessionExtensions

/** For `spark.sql.extensions`. Not needed from Python: the first use in a session registers the same. */
final class PillarboxExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectPlannerStrategy(_ => PillarboxStrategy)
}
