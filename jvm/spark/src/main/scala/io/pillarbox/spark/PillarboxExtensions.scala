package io.pillarbox.spark

import io.pillarbox.spark.plan.PillarboxStrategy
import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}

/**
 * Makes every session plan our nodes, also one that only reads a view over them. Spark finds it on the class path by
 * itself when it makes a session; for a session that is older than the jar, name it in `spark.sql.extensions`, or leave it
 * to the first use in the session, which registers the same.
 */
final class PillarboxExtensions extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectPlannerStrategy(_ => PillarboxStrategy)
}
