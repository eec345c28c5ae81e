package io.pillarbox.spark.async

import scala.util.hashing.MurmurHash3

import org.apache.spark.TaskContext

/**
 * Names calls, so that a service can tell a repeated call from a new one.
 *
 * A call's id is this prefix and the number of its row in the partition. In a stream the prefix comes from the
 * query's id, the batch's id and the partition, which all are the same after a restart; in batch from the operator
 * and the partition. Rows keep their numbers if the input comes in the same order again.
 */
object CallIdentity {

  def prefix(operatorId: String, spec: AsyncIOSpec, context: TaskContext): String = {
    val query = Option(context.getLocalProperty("sql.streaming.queryId"))
    val batch = Option(context.getLocalProperty("streaming.sql.batchId"))
    val owner = query.fold(operatorId)(id => s"$id-${batch.getOrElse("0")}-${signature(spec)}")
    s"$owner-${context.partitionId()}"
  }

  /** Tells apart the operators of one query, and is the same in the next run of the same program. */
  private def signature(spec: AsyncIOSpec): String =
    Integer.toHexString(MurmurHash3.orderedHash(Seq(spec.name, spec.returns.json, spec.inputs.mkString(","))))
}
