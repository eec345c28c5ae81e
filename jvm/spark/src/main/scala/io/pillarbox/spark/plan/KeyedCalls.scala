package io.pillarbox.spark.plan

import io.pillarbox.spark.async.OwnCalls
import io.pillarbox.spark.keyed.KeyedTaskSpec
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{AttributeSeq, BindReferences}
import org.apache.spark.sql.pillarbox.MicroBatches

/** Gives tasks of a keyed operator what the calls of its workers need. On the driver, when it is about to run. */
private object KeyedCalls {

  def added(node: KeyedProcess, task: KeyedTaskSpec, session: SparkSession): KeyedTaskSpec =
    node.calls.fold(task) { spec =>
      val context = session.sparkContext
      NamedLimits.use(spec)
      val calls = OwnCalls.Factory(
        spec,
        CallIdentity.limitKeys(spec, spec.operatorId, context),
        CallBudgets.open(spec, session, MicroBatches.current(context)),
        node.estimates.map(BindReferences.bindReference(_, AttributeSeq(task.input))),
        task.metrics
      )
      task.copy(factory = task.factory.withCalls(calls))
    }
}
