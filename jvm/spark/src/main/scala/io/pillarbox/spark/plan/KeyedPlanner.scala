package io.pillarbox.spark.plan

import io.pillarbox.spark.keyed.scan.{ScanCompiler, ScanOperator}
import io.pillarbox.spark.keyed.{KeyedErrors, KeyedOperatorFactory, KeyedSpec, ScanSpec}
import io.pillarbox.spark.state.InitialLayout
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.pillarbox.{LosslessTypes, SparkAdapter}
import org.apache.spark.sql.types._

/** Makes the DataFrame that runs a keyed operator, whose options were checked before. On the driver. */
private[pillarbox] final class KeyedPlanner(
    df: DataFrame,
    spec: KeyedSpec,
    initial: Option[DataFrame] = None
) {
  import KeyedPlanner._

  private val keys = spec.by.map(SparkAdapter.resolve(df, _))
  private val analyzed = SparkAdapter.analyzedPlan(df)
  private val hasWatermark = analyzed.isStreaming && analyzed.exists(_.isInstanceOf[EventTimeWatermark])
  private val timestamp =
    spec.timestamp
      .map(SparkAdapter.resolve(df, _))
      .orElse(analyzed.output.find(isEventTime))
      .orElse(TaggedUnion.time(analyzed.output))

  /** Rows of a tagged union come by time unless another order is given, and then in the order of inputs. */
  private val orderBy: Seq[Expression] = {
    val asked = spec.orderBy.map(SparkAdapter.resolve(df, _))
    val place = TaggedUnion.place(analyzed.output)
    val time = timestamp.filter(_ => place.isDefined && asked.isEmpty && !spec.timeSorted)
    asked ++ time ++ place
  }

  // Python refuses all other unfit inputs, but does not know all collations.
  keys.filterNot(key => SparkAdapter.isBinaryStable(key.dataType)).foreach { key =>
    throw KeyedErrors.keyCollation(spec.name, key.name, key.dataType.sql)
  }

  /** The calls that the function makes, and the amounts that their limits charge a row with. */
  private val calls = spec.calls
  private val estimates =
    calls.toSeq.flatMap { of =>
      Estimates.of(df.sparkSession, of, analyzed.output, Estimates.toldLater(of))
    }

  /** The rows that the function gets: all columns, or those it asks for with key, time and order. */
  val input: LogicalPlan =
    if (spec.inputs.isEmpty || !spec.late.isEmpty) analyzed
    else {
      val inputs = (spec.inputs ++ calls.toSeq.flatMap(_.callKey)).map(SparkAdapter.resolve(df, _))
      val wanted = AttributeSet(keys ++ timestamp ++ orderBy ++ estimates ++ inputs)
      // The watermark's column decides which rows are late.
      Project(analyzed.output.filter(column => wanted.contains(column) || isWatermarked(column)), analyzed)
    }

  /** The column that tells a function which rows are late, if it gets them. */
  private val lateMark =
    Option.when(spec.onLate == "process")(AttributeReference("is_late", BooleanType, nullable = false)())

  /** Returns the DataFrame of what the function emits, in the schema of the spec. */
  def dataFrame(factory: KeyedOperatorFactory): DataFrame =
    dataFrame(factory, spec, spec.output.map(result))

  /** Returns the DataFrame of a scan, which finds the columns of its rows itself. */
  def scan(expressions: ScanSpec): DataFrame = {
    val waits = spec.timeSorted && input.isStreaming
    val row = if (waits) SparkAdapter.asNullable(input.output.map(_.newInstance())) else input.output
    val (program, columns) =
      new ScanCompiler(df.sparkSession, spec.name, expressions, row, lateMark).compile()
    val compiled = spec.copy(returns = DataTypeUtils.fromAttributes(columns))
    checkNames(compiled)
    // New ids, as a column that passes through belongs to the input, too.
    val own = program.copy(row = Option.when(waits)(row ++ lateMark))
    dataFrame(ScanOperator.Factory(own), compiled, DataTypeUtils.toAttributes(compiled.output))
  }

  private def dataFrame(
      factory: KeyedOperatorFactory,
      spec: KeyedSpec,
      results: Seq[Attribute]
  ): DataFrame = {
    val node =
      KeyedProcess(
        spec.copy(timestamp = timestamp.map(_.name)),
        factory,
        factory.expressions,
        keys,
        timestamp,
        orderBy,
        results,
        CurrentTimestamp(),
        lateMark,
        hasWatermark,
        initial.map(initialPlan),
        calls,
        estimates,
        input
      )
    PillarboxStrategy.register(df.sparkSession, node)
    // Aliases give the columns fresh ids where a query uses this DataFrame twice (a self-join).
    SparkAdapter.ofRows(df.sparkSession, Project(results.map(result => Alias(result, result.name)()), node))
  }

  /** The initial rows: the keys, a column for each state that the spec names, and one to sort by. */
  private def initialPlan(rows: DataFrame): InitialPlan = {
    val found = SparkAdapter.analyzedPlan(rows)
    val (own, states) = found.output.splitAt(keys.size)
    val plan = Project(own.zip(keys).map { case (column, key) => asKey(column, key) } ++ states, found)
    InitialPlan(df.sparkSession, plan, plan.output.take(keys.size), InitialLayout(plan.output, spec.initial))
  }

  private def asKey(column: Attribute, key: Attribute): NamedExpression = {
    val wanted = SparkAdapter.asNullable(key.dataType)
    if (!LosslessTypes.canBecome(SparkAdapter.asNullable(column.dataType), wanted))
      throw KeyedErrors.refused(
        "INITIAL_STATE_KEY_TYPE",
        spec.name,
        "column" -> key.name,
        "found" -> column.dataType.sql,
        "wanted" -> key.dataType.sql
      )
    val zone = SparkAdapter.sqlConf(df.sparkSession).sessionLocalTimeZone
    Alias(Cast(column, wanted, Some(zone)), column.name)()
  }

  /** An event time that keeps its name stays the event time for stateful operators after this one. */
  private def result(field: StructField): Attribute = {
    val isTime = timestamp.exists(time =>
      isWatermarked(time) && time.name == field.name && time.dataType == field.dataType
    )
    val metadata = if (isTime) timestamp.get.metadata else field.metadata
    AttributeReference(field.name, field.dataType, field.nullable, metadata)()
  }

  /** Refuses a column of a scan that has the name of one of the columns for late rows. */
  private def checkNames(spec: KeyedSpec): Unit = {
    val same = SparkAdapter.sqlConf(df.sparkSession).resolver
    spec.late.names.find(name => spec.returns.names.exists(same(_, name))).foreach { name =>
      val places = Seq("column" -> name, "first" -> "on_late", "second" -> "select")
      throw KeyedErrors.refused("OUTPUT_NAME_CLASH", spec.name, places: _*)
    }
  }
}

private[pillarbox] object KeyedPlanner {

  /** True for a time with a watermark. A column of windows has a watermark, too, but is no time. */
  def isEventTime(column: Attribute): Boolean =
    isWatermarked(column) && (column.dataType == TimestampType || column.dataType == TimestampNTZType)

  private def isWatermarked(column: Attribute): Boolean =
    column.metadata.contains(EventTimeWatermark.delayKey)
}
