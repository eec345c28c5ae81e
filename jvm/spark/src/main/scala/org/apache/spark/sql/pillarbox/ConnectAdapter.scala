package org.apache.spark.sql.pillarbox

import org.apache.spark.SparkEnv
import org.apache.spark.connect.proto
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, PythonUDF}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.connect.config.Connect
import org.apache.spark.sql.connect.planner.SparkConnectPlanner
import org.apache.spark.sql.types.StringType
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.unsafe.types.UTF8String
import org.sparkproject.connect.protobuf.CodedInputStream

/**
 * Adapter to Spark Connect's planner, which makes plans and functions of a client's messages, in the client's
 * session on the server. On the thread that the planner was passed to.
 */
final class ConnectAdapter(planner: SparkConnectPlanner) {

  def session: SparkSession = planner.session

  /** @param relation a `spark.connect.Relation` */
  def dataFrame(relation: Array[Byte]): DataFrame = {
    val parsed = proto.Relation.parseFrom(nested(relation))
    SparkAdapter.ofRows(session, planner.transformRelation(parsed))
  }

  /**
   * Returns the Python function of a client, with the files of its session and the interpreter of the server.
   *
   * @param expression a `spark.connect.Expression`: a `common_inline_user_defined_function`
   */
  def function(expression: Array[Byte]): AnyRef =
    planner.transformExpression(proto.Expression.parseFrom(nested(expression))) match {
      case udf: PythonUDF => udf.func
      case other => throw new IllegalArgumentException(s"A Python function is needed, found ${other.sql}")
    }

  /** Returns a plan of one row of texts, which a client gets without a job. */
  def text(values: String*): LogicalPlan = {
    val columns = values.indices.map(at => AttributeReference(s"_$at", StringType, nullable = false)())
    LocalRelation(columns, Seq(InternalRow.fromSeq(values.map(UTF8String.fromString))))
  }

  /** Returns the same as a DataFrame. */
  def rows(values: String*): DataFrame = SparkAdapter.ofRows(session, text(values: _*))

  /** Allows messages as deep as those that Connect reads itself; protobuf's own limit is far lower. */
  private def nested(message: Array[Byte]): CodedInputStream = {
    val in = CodedInputStream.newInstance(message)
    in.setRecursionLimit(SparkEnv.get.conf.get(Connect.CONNECT_GRPC_MARSHALLER_RECURSION_LIMIT))
    in
  }
}
