package io.pillarbox.spark.plan

import io.pillarbox.spark.async.{AsyncIOFunction, AsyncIOSpec, CallColumn, OnError}
import io.pillarbox.spark.keyed.KeyedErrors
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.pillarbox.{SparkAdapter, UserFunction}
import org.apache.spark.sql.types._

/** Makes the DataFrame that runs an async I/O operator over `df`. On the driver. */
private[pillarbox] final class AsyncIOPlanner(df: DataFrame, spec: AsyncIOSpec) {
  import AsyncIOPlanner._

  private val rows = SparkAdapter.analyzedPlan(df)
  private val inputs = if (spec.inputs.isEmpty) rows.output else columns(spec.inputs)

  /** @param python the function in Python, or what others in Python need beside one of the JVM */
  def dataFrame(function: AsyncIOFunction, python: Option[UserFunction]): DataFrame = {
    CallJournals.check(spec, df.sparkSession)
    val (child, estimated) = withEstimates(python)
    val estimates = Estimates.of(df.sparkSession, spec, rows.output, estimated)
    val node = AsyncIO(
      spec.withoutEstimator,
      function,
      inputs,
      keys,
      comparable(spec.by),
      results(spec),
      estimates,
      comparable(spec.limits.flatMap(_.key)),
      child
    )
    PillarboxStrategy.register(df.sparkSession, node)
    // Aliases give the new columns fresh ids where a query uses this DataFrame twice (a self-join).
    val added = node.results.map { result =>
      Alias(result, result.name)(explicitMetadata = metadata.get(result.name))
    }
    SparkAdapter.ofRows(df.sparkSession, Project(rows.output ++ added, node))
  }

  /** Returns the rows with what functions estimate for them, and the column of that. */
  private def withEstimates(python: Option[UserFunction]): (LogicalPlan, Expression) = {
    val row = CreateNamedStruct(inputs.flatMap(column => Seq(Literal(column.name), column)))
    python.flatMap(Estimates.udf(spec, _, Seq(row))).fold((rows, Estimates.toldLater(spec))) { udf =>
      val made = Alias(udf, Estimates.Column)()
      (Project(rows.output :+ made, rows), made.toAttribute)
    }
  }

  /** What `pb.failed` and `pb.usage` read of the columns that are not the function's, by name. */
  private def metadata: Map[String, Metadata] = {
    val failed = new MetadataBuilder().putStringArray(Inputs, rows.output.map(_.name).toArray).build()
    val told = new MetadataBuilder().putString(Operator, spec.name)
    val call = told
      .putStringArray(Units, spec.units.toArray)
      .putBoolean(Batch, spec.figures.batching.isDefined)
      .build()
    spec.errorColumn.map(_ -> failed).toMap ++
      spec.callColumn.map(_ -> call)
  }

  private def columns(names: Seq[String]): Seq[Attribute] = names.map(SparkAdapter.resolve(df, _))

  private def keys: Seq[Attribute] =
    if (!spec.isKeyed) Nil else if (spec.callKey.isEmpty) inputs else columns(spec.callKey)

  /** The columns of keys whose values are told apart by their bytes. */
  private def comparable(names: Seq[String]): Seq[Attribute] = columns(names).map { column =>
    if (!SparkAdapter.isBinaryStable(column.dataType))
      throw KeyedErrors.keyCollation(spec.name, column.name, column.dataType.sql)
    column
  }
}

private[plan] object AsyncIOPlanner {

  /** The names of metadata, which `python/src/pillarbox/_arrow/schema.py` has too. */
  private val Inputs = "pillarbox.inputs"
  private val Operator = "pillarbox.operator"
  private val Units = "pillarbox.units"
  private val Batch = "pillarbox.batch"

  /** The struct that `on_error="column"` adds. */
  val ErrorType: StructType = new StructType()
    .add("kind", StringType)
    .add("message", StringType)
    .add("attempts", IntegerType)
    .add("elapsed_ms", LongType)
    .add("call_id", StringType)

  /** Returns new columns for the results, with those of the error and of the call if there are any. */
  def results(spec: AsyncIOSpec): Seq[Attribute] = {
    val returned = spec.returns.map { field =>
      // A row whose call failed has nulls, unless it fails the task.
      AttributeReference(field.name, field.dataType, field.nullable || spec.onError != OnError.Raise)()
    }
    val failed =
      spec.errorColumn.map(AttributeReference(_, ErrorType)())
    returned ++ failed ++ spec.callColumn.map(AttributeReference(_, CallColumn.Type)())
  }
}
