package io.pillarbox.spark.plan

import io.pillarbox.spark.async._
import io.pillarbox.spark.async.carry.CarryLedger
import org.apache.spark.SparkContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.pillarbox.{DriverMessages, MicroBatch, SparkAdapter}

/** Makes the descriptions of an operator's tasks. On the driver, when the operator is about to run. */
private[spark] object AsyncIOTasks {

  /**
   * @param rows the columns of the rows that come in
   * @param batch the micro-batch that the operator runs in, if it is in a streaming query
   * @param scope the prefix of the ids of its calls
   */
  def of(
      node: AsyncIO,
      rows: Seq[Attribute],
      session: SparkSession,
      batch: Option[MicroBatch],
      scope: String,
      metrics: Map[String, SQLMetric]
  ): AsyncIOTaskSpec = {
    val conf = SparkAdapter.sqlConf(session)
    AsyncIOTaskSpec(
      node.spec,
      node.function.ofCurrentJob,
      node.columns(rows),
      CallSite(scope, limitKey(node, session.sparkContext), CallJournals.folder(node, session, batch)),
      ArrowSettings(conf.sessionLocalTimeZone, conf.arrowUseLargeVarTypes, conf.arrowMaxRecordsPerBatch),
      ErrorText.of(conf),
      metrics
    )
  }

  /** Lets tasks reach the driver's part of operators. Before they are made. */
  def serve(context: SparkContext): Unit =
    DriverMessages.serve(context, CarryLedger, LeaseLedgers, CallProgress)

  /** Returns the key of the limits. If they count more than an executor, the driver lends from now on. */
  private def limitKey(node: AsyncIO, context: SparkContext): String = {
    if (node.spec.limit.exists(_.scope == LimitScope.Query)) serve(context)
    CallIdentity.limitKey(node.spec, node.operatorId, context)
  }
}
