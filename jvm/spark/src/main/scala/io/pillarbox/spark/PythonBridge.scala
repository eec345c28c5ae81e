package io.pillarbox.spark

import java.util.{Properties, UUID}

import scala.jdk.CollectionConverters._
import scala.util.Using

import com.fasterxml.jackson.databind.ObjectMapper
import io.pillarbox.spark.async.{AsyncIOFunction, AsyncIOSpec, OnError}
import io.pillarbox.spark.inspect.{CheckpointCatalog, StateReader}
import io.pillarbox.spark.keyed.jvm.JvmKeyedOperator
import io.pillarbox.spark.keyed.python.PythonKeyedOperator
import io.pillarbox.spark.keyed.{KeyedErrors, KeyedSpec}
import io.pillarbox.spark.plan.{AsyncIO, KeyedPlanner, PillarboxStrategy}
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.pillarbox.{SparkAdapter, UserFunction}
import org.apache.spark.sql.types.{IntegerType, LongType, StringType, StructType}
import org.apache.spark.sql.{DataFrame, SparkSession}

/**
 * What Python calls, and the only class that it calls: by py4j, or from a Spark Connect client by messages.
 * Runs on the driver.
 */
private[pillarbox] object PythonBridge {

  private lazy val build: Properties =
    Using.resource(getClass.getResourceAsStream("/io/pillarbox/version.properties")) { in =>
      val properties = new Properties
      properties.load(in)
      properties
    }

  /** This jar's version; the Python package must have the same. */
  def version: String = build.getProperty("version")

  /** The line of Spark, as in "4.2", that this jar was built for. */
  def sparkVersion: String = build.getProperty("spark")

  /** The struct that `on_error="column"` adds. */
  val ErrorType: StructType = new StructType()
    .add("kind", StringType)
    .add("message", StringType)
    .add("attempts", IntegerType)
    .add("elapsed_ms", LongType)

  /**
   * A DataFrame that calls a function for each row of `df`.
   *
   * @param function
   *   PySpark's `SimplePythonFunction`; null where the spec names an `io.pillarbox.api.AsyncFunction` by class
   * @param specJson
   *   an [[AsyncIOSpec]] as JSON
   */
  def asyncIO(df: DataFrame, function: AnyRef, specJson: String): DataFrame = {
    val spec = AsyncIOSpec.fromJson(specJson)
    if (function != null) plan(df, spec, AsyncIOFunction.Python(UserFunction.of(function)))
    else plan(df, spec, AsyncIOFunction.Jvm(className(spec.name, spec.className), spec.options))
  }

  /**
   * A DataFrame that processes each key of `df` with state and timers.
   *
   * @param function
   *   PySpark's `SimplePythonFunction`; null for the forms that need no Python
   * @param specJson
   *   a [[KeyedSpec]] as JSON
   * @param initial the state that the query starts with: the key columns, a column for each entry of the
   *   spec's `initial`, and one that rows are sorted by; null for none
   */
  def processKeyed(df: DataFrame, function: AnyRef, specJson: String, initial: DataFrame): DataFrame = {
    val spec = KeyedSpec.fromJson(specJson)
    val planner = new KeyedPlanner(df, spec, Option(initial))
    spec.form match {
      case "scan" => planner.scan()
      case "jvm" =>
        val name = className(spec.name, spec.className)
        planner.dataFrame(JvmKeyedOperator.Factory(name, spec.options))
      case "row" | "batch" =>
        planner.dataFrame(PythonKeyedOperator.Factory(spec.form, UserFunction.of(function)))
      case other =>
        throw new IllegalArgumentException(
          s"${spec.name}: the form of a keyed function is row, batch, jvm or scan, found \"$other\""
        )
    }
  }

  /** The keyed operators of a checkpoint, as a JSON list of `{"id", "name"}`; empty where there is none. */
  def storedOperators(session: SparkSession, checkpoint: String): String =
    json(new CheckpointCatalog(session, checkpoint).operators.map { case (id, note) =>
      java.util.Map.of[String, Any]("id", id, "name", note.name)
    })

  /** The versions of an operator's state that can be read, as a JSON list. */
  def storedVersions(session: SparkSession, checkpoint: String, operator: Long): String =
    json(new CheckpointCatalog(session, checkpoint).versions(operator))

  /** The names of the states in a version, as a JSON list. */
  def storedStates(session: SparkSession, checkpoint: String, operator: Long, version: Long): String =
    json(new CheckpointCatalog(session, checkpoint).states(operator, version).map(_.name))

  /** A DataFrame of a state's entries, or of the timers; see [[StateReader.read]]. */
  def readState(
      session: SparkSession,
      checkpoint: String,
      operator: Long,
      name: String,
      version: Long
  ): DataFrame = StateReader.read(session, checkpoint, operator, name, version)

  private def json(values: Seq[Any]): String = new ObjectMapper().writeValueAsString(values.asJava)

  private def className(operator: String, named: Option[String]): String = named.getOrElse(
    throw new IllegalArgumentException(s"$operator: a function of the JVM needs a class name")
  )

  private def plan(df: DataFrame, spec: AsyncIOSpec, function: AsyncIOFunction): DataFrame = {
    val child = SparkAdapter.analyzedPlan(df)
    PillarboxStrategy.register(df.sparkSession)
    val operatorId = spec.operatorId.getOrElse(UUID.randomUUID().toString)
    val node = AsyncIO(
      spec,
      function,
      inputs(df, spec),
      keys(df, spec),
      by(df, spec),
      results(spec),
      operatorId,
      child
    )
    // Aliases give the new columns fresh ids where a query uses this DataFrame twice (a self-join).
    val columns = child.output ++ node.results.map(result => Alias(result, result.name)())
    SparkAdapter.ofRows(df, Project(columns, node))
  }

  private def inputs(df: DataFrame, spec: AsyncIOSpec): Seq[Attribute] = {
    val output = SparkAdapter.analyzedPlan(df).output
    if (spec.inputs.isEmpty) output
    else spec.inputs.map(name => SparkAdapter.resolve(df, name))
  }

  private def keys(df: DataFrame, spec: AsyncIOSpec): Seq[Attribute] =
    if (!spec.isKeyed) Nil
    else if (spec.callKey.isEmpty) inputs(df, spec)
    else spec.callKey.map(name => SparkAdapter.resolve(df, name))

  private def by(df: DataFrame, spec: AsyncIOSpec): Seq[Attribute] =
    spec.by.map { name =>
      val column = SparkAdapter.resolve(df, name)
      if (!SparkAdapter.isBinaryStable(column.dataType))
        throw KeyedErrors.keyCollation(spec.name, column.name, column.dataType.sql)
      column
    }

  private def results(spec: AsyncIOSpec): Seq[Attribute] = {
    val returned = spec.returns.map { field =>
      // A row whose call failed has nulls, unless it fails the task.
      AttributeReference(field.name, field.dataType, field.nullable || spec.onError != OnError.Raise)()
    }
    if (spec.onError == OnError.Column) returned :+ AttributeReference(spec.errorColumn, ErrorType)()
    else returned
  }
}
