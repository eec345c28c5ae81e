package io.pillarbox.spark

import io.pillarbox.spark.plan.{CallsOnce, PillarboxStrategy, PullOutCalls, PushFiltersThroughCalls}
import org.apache.spark.sql.catalyst.trees.TreePattern
import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}

/**
 * Makes every session plan the library's nodes, and watch the streaming queries that have them. Spark finds
 * it as a service on the class path when it makes the first session, and passes it on to the sessions made
 * from that one, which may read a view that another session has made. `spark.sql.extensions` may name it,
 * too. A session that is older than the jar registers the same at its first use.
 */
private[pillarbox] final class PillarboxExtensions extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectPlannerStrategy(_ => PillarboxStrategy)
    extensions.injectPlanNormalizationRule(_ => PullOutCalls)
    extensions.injectOptimizerRule(_ => PushFiltersThroughCalls)
    extensions.injectColumnar(_ => CallsOnce)
    extensions.injectCheckRule(session => PillarboxStrategy.watch(session, _))
    extensions.injectCheckRule { session => plan =>
      // Extensions have no place for a rule that runs after Spark has extracted Python UDFs.
      if (plan.containsPattern(TreePattern.PYTHON_UDF)) PillarboxStrategy.registerUdfs(session)
    }
  }
}
