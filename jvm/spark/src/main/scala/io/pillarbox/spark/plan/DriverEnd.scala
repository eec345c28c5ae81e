package io.pillarbox.spark.plan

import io.pillarbox.spark.async.carry.CarryRegistry
import io.pillarbox.spark.async.{CallProgress, Lending, UsageRegistry}
import io.pillarbox.spark.task.FirstFailures
import org.apache.spark.SparkContext
import org.apache.spark.sql.pillarbox.{DriverMessages, PythonDriver}
import org.slf4j.LoggerFactory

/** What the driver does with the messages of executors. */
private[plan] object DriverEnd {
  private val log = LoggerFactory.getLogger("io.pillarbox.FailedCalls")

  private val failures = new FirstFailures({ lines =>
    log.warn(lines)
    PythonDriver.say(lines)
  })

  /** Receives messages from now on. Before tasks are made. */
  def serve(context: SparkContext): Unit =
    DriverMessages.serve(
      context,
      CarryRegistry,
      Lending,
      failures,
      CallProgress,
      UsageRegistry.ofDriver
    )
}
