package io.pillarbox.spark.plan

import io.pillarbox.spark.async.{AsyncIOSpec, LimitScope}
import org.apache.spark.SparkContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.pillarbox.{MicroBatch, MicroBatches}

/**
 * Names calls, so that a service can tell a repeated call from a new one. A call's id is its operator's
 * scope, the number of the partition among those of the operator, and the number of the row in the partition.
 *
 * In a streaming query the scope is made of the query's id, the batch's number and the operator's place in
 * the plan, which are the same when the batch is run again, also by another driver. Elsewhere the scope comes
 * with the operator. A call in an expression has its place in the optimized plan, where Spark has put it, in a
 * `foreachBatch` its number among the calls there, and elsewhere the id of its result's column, which differs
 * from query to query.
 */
private object CallIdentity {

  /**
   * Returns the prefix of the ids of an operator's calls. On the driver, when the operator is about to run.
   *
   * @param batch the micro-batch that the operator runs in, if it is in a streaming query
   */
  def scope(node: AsyncIO, batch: Option[MicroBatch], context: SparkContext): String = {
    import node.spec
    if (!spec.expression) scope(spec, batch)
    else
      batch
        .flatMap(inStream(spec, _, placeOfUdf(node, context)))
        .getOrElse(scopeOfUdf(node, context))
  }

  /** Returns the same for calls that are in no expression. */
  def scope(spec: AsyncIOSpec, batch: Option[MicroBatch]): String = batch
    .flatMap(known => inStream(spec, known, placeIn(known.plan, spec, spec.operatorId)))
    .getOrElse(spec.callScope.getOrElse(spec.operatorId))

  private def inStream(spec: AsyncIOSpec, batch: MicroBatch, place: Option[Any]): Option[String] =
    place.map(known => s"${batch.query}-${batch.number}-${spec.signature}-$known")

  private def placeOfUdf(node: AsyncIO, context: SparkContext): Option[String] =
    MicroBatches.optimizedPlan(context).flatMap { plan =>
      val alike = plan.collectWithSubqueries {
        case other: AsyncIO if other.spec.signature == node.spec.signature => other.results.head.exprId
      }
      Some(alike.distinct.indexOf(node.results.head.exprId)).filter(_ >= 0).map(place => s"u$place")
    }

  private def scopeOfUdf(node: AsyncIO, context: SparkContext): String =
    MicroBatches.inForeachBatch(context) match {
      case Some(batch) =>
        val number = ForeachBatchCalls.number(node, batch, context)
        s"${batch.query}-${batch.number}-${node.spec.signature}-f$number"
      case None =>
        val column = node.results.head.exprId
        s"${node.operatorId}-${column.jvmId.toString.take(8)}-${column.id}"
    }

  /** Returns the prefix with carry-over, without the batch's number: elements are numbered over batches. */
  def scopeOfQuery(spec: AsyncIOSpec, operatorId: String, batch: Option[MicroBatch]): String = {
    val inStream = for {
      batch <- batch
      place <- placeIn(batch.plan, spec, operatorId)
    } yield s"${batch.query}-${spec.signature}-$place"
    inStream.getOrElse(operatorId)
  }

  /**
   * Names an operator in a streaming query, or in what its `foreachBatch` runs: alike in every run and in all
   * micro-batches. All uses of one `async_udf` have one name.
   */
  def placeInQuery(spec: AsyncIOSpec, batch: Option[MicroBatch]): String = {
    import spec.operatorId
    if (spec.expression) spec.signature
    else
      batch
        .flatMap(known => placeIn(known.plan, spec, operatorId))
        .fold(operatorId)(place => s"${spec.signature}-$place")
  }

  /**
   * Returns the operator's name in the progress of a streaming query: its own, with a number behind those of
   * its name that come before it in the query. On the thread that plans a micro-batch.
   */
  def observedName(node: AsyncIO): String = {
    // An expression may be used several times, and only the optimized plan has its nodes.
    def idOf(node: AsyncIO): Any = if (node.spec.expression) node.results.head.exprId else node.operatorId
    def named(plan: LogicalPlan) = plan.collectWithSubqueries {
      case other: AsyncIO if other.spec.name == node.spec.name => idOf(other)
    }.distinct
    val inQuery = MicroBatches.beingPlanned(SparkSession.active).map(batch => named(batch.plan))
    val place = inQuery.map(_.reverse.indexOf(idOf(node))).filter(_ >= 0)
    val before = place.getOrElse(named(node.child).size)
    if (before == 0) node.spec.name else s"${node.spec.name} ${before + 1}"
  }

  /**
   * Returns the keys by which an operator's limits are counted: the limit's name; else all tasks of its call of
   * `async_io` in an executor; or those of one streaming query with what its `foreachBatch` runs, or of one
   * action of a batch.
   */
  def limitKeys(spec: AsyncIOSpec, operatorId: String, context: SparkContext): Seq[String] =
    spec.limits.map { limit =>
      val unit = if (limit.isOfUse) s"/${limit.unit}" else ""
      val calls = if (limit.scope == LimitScope.Query) s"$operatorId/${run(context)}" else operatorId
      // Who names a limit shares it by the values of its key alone, whatever the column's name.
      val key = limit.key.fold("")(column => s"/key $column")
      limit.name.fold(calls + key)(NamedLimits.key) + unit
    }

  /** Names the streaming query, or the action of a batch, that the calling thread works for; empty for none. */
  private def run(context: SparkContext): String =
    MicroBatches.query(context).orElse(MicroBatches.action(context)).getOrElse("")

  /** Returns the number among operators that look alike, so that others may come and go between two runs. */
  private def placeIn(plan: LogicalPlan, spec: AsyncIOSpec, operatorId: String): Option[Int] = {
    val alike = plan.collectWithSubqueries { case PlannedCalls.MadeBy(other) => other }.collect {
      case other if other.signature == spec.signature => other.operatorId
    }
    Some(alike.distinct.indexOf(operatorId)).filter(_ >= 0)
  }
}
