package io.pillarbox.spark.plan

import io.pillarbox.spark.async._
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSeq, BindReferences}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.pillarbox.{MicroBatch, SparkAdapter}

/** Makes the descriptions of an operator's tasks. On the driver, when the operator is about to run. */
private object AsyncIOTasks {

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
    val context = session.sparkContext
    DriverEnd.serve(context)
    NamedLimits.use(node.spec, node.limitKeys)
    AsyncIOTaskSpec(
      node.spec,
      node.function.ofCurrentJob,
      node.columns(rows),
      CallSite(
        scope,
        CallIdentity.limitKeys(node.spec, node.operatorId, context),
        CallJournals.folder(node, session, batch),
        CallBudgets.open(node.spec, session, batch)
      ),
      ArrowSettings(conf.sessionLocalTimeZone, conf.arrowUseLargeVarTypes, conf.arrowMaxRecordsPerBatch),
      ErrorText.of(conf),
      metrics,
      node.estimates.map(BindReferences.bindReference(_, AttributeSeq(rows)))
    )
  }
}
