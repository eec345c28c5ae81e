package io.pillarbox.spark.plan

import io.pillarbox.spark.async._
import io.pillarbox.spark.keyed.KeyedTaskSpec
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{AttributeSeq, BindReferences}
import org.apache.spark.sql.pillarbox.{MicroBatches, SparkAdapter}
import org.apache.spark.sql.types.StructType

/** Gives tasks of a keyed operator what the calls of its workers need. On the driver, when it is about to run. */
private object KeyedCalls {

  def added(node: KeyedProcess, task: KeyedTaskSpec, session: SparkSession): KeyedTaskSpec =
    node.calls.fold(task) { spec =>
      NamedLimits.use(spec)
      task.copy(factory = task.factory.withCalls(KeyedAttempts.Factory(taskOf(node, spec, task, session))))
    }

  private def taskOf(node: KeyedProcess, spec: AsyncIOSpec, task: KeyedTaskSpec, session: SparkSession) = {
    val context = session.sparkContext
    val batch = MicroBatches.current(context)
    AsyncIOTaskSpec(
      spec,
      AsyncIOFunction.OfTask,
      columns(spec, task, session),
      CallSite(
        CallIdentity.scope(spec, batch),
        CallIdentity.limitKeys(spec, spec.operatorId, context),
        journal = None,
        CallBudgets.open(spec, session, batch)
      ),
      ArrowSettings(task.timeZone, largeVarTypes = false, task.maxRowsPerBatch),
      task.text,
      task.metrics,
      node.estimates.map(BindReferences.bindReference(_, AttributeSeq(task.input)))
    )
  }

  /** A call is given its row and the key of that. */
  private def columns(spec: AsyncIOSpec, task: KeyedTaskSpec, session: SparkSession): CallColumns = {
    val keys = task.keys.map(key => task.columns.indexWhere(_.exprId == key.exprId))
    val same = SparkAdapter.sqlConf(session).resolver
    CallColumns(
      task.inputSchema,
      (task.functionColumns ++ keys).distinct,
      spec.callKey.map(name => task.columns.indexWhere(column => same(column.name, name))),
      by = Nil,
      answers = new StructType,
      call = None
    )
  }
}
