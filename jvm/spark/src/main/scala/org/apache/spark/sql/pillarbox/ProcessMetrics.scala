package org.apache.spark.sql.pillarbox

import java.util.concurrent.ConcurrentHashMap

import com.codahale.metrics.{Gauge, MetricRegistry}
import org.apache.spark.SparkEnv
import org.apache.spark.metrics.MetricsSystem
import org.apache.spark.metrics.source.Source

/**
 * Gauges of this process, a driver or an executor, in Spark's metrics system, under the source "pillarbox".
 * Any thread. Written for Spark 4.2.
 */
object ProcessMetrics {
  private val gauges = new ConcurrentHashMap[String, Gauge[java.lang.Long]]
  private var shownIn: MetricsSystem = _
  private var shown: MetricRegistry = _

  /** Returns the gauge of a name, and shows it from now on, also where a SparkContext starts later. */
  def gauge(name: String, make: => Gauge[java.lang.Long]): Gauge[java.lang.Long] = synchronized {
    showAll()
    gauges.computeIfAbsent(
      name,
      _ => {
        val made = make
        if (shown != null) shown.register(name, made)
        made
      }
    )
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
