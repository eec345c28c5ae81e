package org.apache.spark.sql.pillarbox

import java.util.{LinkedHashMap => JLinkedHashMap}

import com.codahale.metrics.{Gauge, MetricRegistry}
import org.apache.spark.SparkEnv
import org.apache.spark.metrics.MetricsSystem
import org.apache.spark.metrics.source.Source

/**
 * Gauges of this process, a driver or an executor, in Spark's metrics system, under the source "pillarbox".
 * Any thread. Written for Spark 4.2.
 */
object ProcessMetrics {
  private final val MostGauges = 2000

  /** In the order of their last use; those that were unused for longest are dropped. */
  private val gauges = new JLinkedHashMap[String, Gauge[java.lang.Long]](16, 0.75f, true)
  private var shownIn: MetricsSystem = _
  private var shown: MetricRegistry = _

  /** Returns the gauge of a name, and shows it from now on, also where a SparkContext starts later. */
  def gauge(name: String, make: => Gauge[java.lang.Long]): Gauge[java.lang.Long] = synchronized {
    showAll()
    Option(gauges.get(name)).getOrElse {
      val made = make
      gauges.put(name, made)
      if (shown != null) shown.register(name, made)
      if (gauges.size > MostGauges) drop(gauges.keySet.iterator.next())
      made
    }
  }

  private def drop(name: String): Unit = {
    gauges.remove(name)
    if (shown != null) shown.remove(name): Unit
  }

  /** Shows the gauges of earlier SparkContexts of this process in the present one. */
  private def showAll(): Unit = {
    val env = SparkEnv.get
    if (env != null && (env.metricsSystem ne shownIn)) {
      val registry = new MetricRegistry
      gauges.forEach((name, gauge) => registry.register(name, gauge): Unit)
      env.metricsSystem.registerSource(new OfProcess(registry))
      shownIn = env.metricsSystem
      shown = registry
    }
  }

  private final class OfProcess(override val metricRegistry: MetricRegistry) extends Source {
    override def sourceName: String = "pillarbox"
  }
}
