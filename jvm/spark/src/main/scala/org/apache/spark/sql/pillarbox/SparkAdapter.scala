package org.apache.spark.sql.pillarbox

import org.apache.arrow.memory.BufferAllocator
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.hadoop.conf.Configuration
import org.apache.spark.SparkContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.internal.config.SECRET_REDACTION_PATTERN
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.expressions.{Ascending, Attribute, BoundReference, Expression, SortOrder}
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, RepartitionByExpression, Sort}
import org.apache.spark.sql.catalyst.util.{QuotingUtils, UnsafeRowUtils}
import org.apache.spark.sql.catalyst.{InternalRow, ProjectingInternalRow}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.sources.BaseRelation
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.sql.{DataFrame, ExperimentalMethods, SparkSession, classic}
import org.apache.spark.util.SerializableConfiguration

/** The `private[sql]` calls that plan nodes need, but for Python workers. Written for Spark 4.2. */
object SparkAdapter {

  /** Returns a DataFrame over `plan`, analysed at once, so that errors point to the user's call. */
  def ofRows(session: SparkSession, plan: LogicalPlan): DataFrame =
    classic.Dataset.ofRows(classicOf(session), plan)

  /** Returns a DataFrame over a relation. */
  def ofRelation(session: SparkSession, relation: BaseRelation): DataFrame =
    classicOf(session).baseRelationToDataFrame(relation)

  /** True on the thread of a streaming query, which has a session of its own for its micro-batches. */
  def isOfQuery(session: SparkSession): Boolean =
    session.sparkContext.getLocalProperty(Spark41.StreamExecution.QUERY_ID_KEY) != null

  /** The session's registry of planning strategies. */
  def experimental(session: SparkSession): ExperimentalMethods = classicOf(session).experimental

  private[pillarbox] def classicOf(session: SparkSession): classic.SparkSession = session match {
    case local: classic.SparkSession => local
    case other =>
      throw new UnsupportedOperationException(
        s"The JVM engine needs a classic session, found ${other.getClass.getName}."
      )
  }

  def analyzedPlan(df: DataFrame): LogicalPlan = classicOf(df).queryExecution.analyzed

  /**
   * Returns the column called `name`, by the session's case rules.
   *
   * @throws org.apache.spark.sql.AnalysisException if there is none, or more than one
   */
  def resolve(df: DataFrame, name: String): Attribute =
    classicOf(df).resolve(QuotingUtils.quoteIdentifier(name)) match {
      case attribute: Attribute => attribute
      case other => throw new IllegalArgumentException(s"$name is no column but ${other.sql}")
    }

  /** @throws UnsupportedOperationException for a Spark Connect DataFrame, which has no plan here */
  def classicOf(df: DataFrame): classic.DataFrame = df match {
    case local: classic.Dataset[_] => local.asInstanceOf[classic.DataFrame]
    case other =>
      throw new UnsupportedOperationException(
        s"The JVM engine needs a classic DataFrame, found ${other.getClass.getName}."
      )
  }

  /** The session's Hadoop configuration for the driver. */
  def hadoopConf(session: SparkSession): Configuration = classicOf(session).sessionState.newHadoopConf()

  def sqlConf(session: SparkSession): SQLConf = classicOf(session).sessionState.conf

  /** The pattern of names whose values Spark hides. */
  def redaction(conf: SQLConf): String = {
    val setting = SECRET_REDACTION_PATTERN
    conf.getConfString(setting.key, setting.defaultValueString)
  }

  /**
   * Returns the rows of `plan`, partitioned as the input of a stateful operator is.
   *
   * @param order the column by which rows of a key are sorted; those of equal keys are together
   */
  def partitionedRows(
      session: SparkSession,
      plan: LogicalPlan,
      keys: Seq[Attribute],
      partitions: Int,
      order: Attribute
  ): RDD[InternalRow] = {
    val arranged = RepartitionByExpression(keys, plan, partitions)
    val columns = keys.map(normalizeKey) :+ order
    val sorted = Sort(columns.map(SortOrder(_, Ascending)), global = false, arranged)
    val rows = classic.Dataset.ofRows(classicOf(session), sorted).queryExecution.toRdd
    // Spark plans no exchange for what it knows to be empty.
    if (rows.getNumPartitions > 0) rows
    else session.sparkContext.parallelize(Seq.empty[InternalRow], partitions)
  }

  /** Returns a function that shows some columns of a row, valid until its next call. Single-threaded. */
  def view(schema: StructType, ordinals: Seq[Int]): InternalRow => InternalRow =
    if (ordinals == schema.indices) identity
    else {
      val view = ProjectingInternalRow(StructType(ordinals.map(schema(_))), ordinals.toIndexedSeq)
      row => {
        view.project(row)
        view
      }
    }

  /** The columns of a row, any of which may be null whatever the schema says. */
  def references(schema: StructType): Seq[BoundReference] =
    schema.fields.toSeq.zipWithIndex.map { case (field, i) =>
      BoundReference(i, field.dataType, nullable = true)
    }

  def asNullable(dataType: DataType): DataType = dataType.asNullable

  def asNullable(schema: StructType): StructType = schema.asNullable

  /**
   * The columns as rows have them that outlive the plan of their micro-batch. Spark makes that of each anew, and
   * of a union it has the inputs with new rows alone, so it may rule out nulls that earlier rows have.
   */
  def asNullable(columns: Seq[Attribute]): Seq[Attribute] =
    columns.map(column => column.withDataType(column.dataType.asNullable).withNullability(true))

  /** The session's Hadoop configuration for its tasks. */
  def broadcastHadoopConf(session: SparkSession): Broadcast[SerializableConfiguration] =
    classicOf(session).sparkContext.broadcast(new SerializableConfiguration(hadoopConf(session)))

  /** Normalizes NaN and -0.0 in the expression, so that equal keys have equal bytes. */
  def normalizeKey(key: Expression): Expression = NormalizeFloatingNumbers.normalize(key)

  /** True if the type, or a type within it, is wanted. */
  def contains(dataType: DataType)(wanted: DataType => Boolean): Boolean = dataType.existsRecursively(wanted)

  /** True if equal strings in it have equal bytes, as in all collations that ignore nothing. */
  def isBinaryStable(dataType: DataType): Boolean = UnsafeRowUtils.isBinaryStable(dataType)

  def arrowSchema(schema: StructType, timeZone: String, largeVarTypes: Boolean): Schema =
    ArrowUtils.toArrowSchema(schema, timeZone, errorOnDuplicatedFieldNames = false, largeVarTypes)

  /** Clears the progress bar of Spark in the console, which comes back half a second later at the earliest. */
  def hideProgressBar(context: SparkContext): Unit = context.progressBar.foreach(_.finishAll())

  def arrowAllocator(name: String): BufferAllocator =
    ArrowUtils.rootAllocator.newChildAllocator(name, 0, Long.MaxValue)
}
