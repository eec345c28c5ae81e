package io.pillarbox.spark.plan

import io.pillarbox.spark.keyed.scan.{ScanCompiler, ScanOperator}
import io.pillarbox.spark.keyed.{KeyedErrors, KeyedOperatorFactory, KeyedSpec}
import io.pillarbox.spark.state.InitialLayout
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.pillarbox.{LosslessTypes, SparkAdapter}
import org.apache.spark.sql.types._

/**
 * Checks the options of a keyed operator against its input, and makes the DataFrame that runs it. On the
 * driver.
 */
private[pillarbox] final class KeyedPlanner(
    df: DataFrame,
    spec: KeyedSpec,
    initial: Option[DataFrame] = None
) {
  private val keys = spec.by.map(column("by", _))
  private val orderBy = spec.orderBy.map(column("order_by", _))
  private val analyzed = SparkAdapter.analyzedPlan(df)
  private val hasWatermark = analyzed.isStreaming && analyzed.exists(_.isInstanceOf[EventTimeWatermark])
  private val timestamp =
    spec.timestamp.map(column("timestamp", _)).orElse(analyzed.output.find(isEventTime))

  check()

  /** Rows that the function is given: all columns, or those it asks for with key, time and order. */
  val input: LogicalPlan =
    if (spec.inputs.isEmpty) analyzed
    else {
      val wanted = AttributeSet(keys ++ timestamp ++ orderBy ++ spec.inputs.map(column("inputs", _)))
      // The watermark's column decides which rows are late.
      Project(analyzed.output.filter(column => wanted.contains(column) || isWatermarked(column)), analyzed)
    }

  /** The DataFrame of what the function emits, in the schema of the spec. */
  def dataFrame(factory: KeyedOperatorFactory): DataFrame =
    dataFrame(factory, spec, spec.output.map(result))

  /** A scan decides itself what it puts out. */
  def scan(): DataFrame = {
    val (program, columns) = new ScanCompiler(df.sparkSession, spec, input.output).compile()
    val returns = DataTypeUtils.fromAttributes(columns)
    // New ids: a column that passes through belongs to the input, too.
    val results = DataTypeUtils.toAttributes(returns)
    dataFrame(ScanOperator.Factory(program), spec.copy(returns = returns), results)
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
        hasWatermark,
        initial.map(initialPlan),
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
    InitialPlan(
      df.sparkSession,
      plan,
      plan.output.take(keys.size),
      InitialLayout(plan.output, spec.initial)
    )
  }

  private def asKey(column: Attribute, key: Attribute): NamedExpression = {
    val wanted = SparkAdapter.asNullable(key.dataType)
    if (!LosslessTypes.canBecome(SparkAdapter.asNullable(column.dataType), wanted))
      throw KeyedErrors.initialKeyType(spec.name, key.name, column.dataType.sql, key.dataType.sql)
    val zone = SparkAdapter.sqlConf(df.sparkSession).sessionLocalTimeZone
    Alias(Cast(column, wanted, Some(zone)), column.name)()
  }

  /**
   * The event time that goes out under its own name still is the event time, for stateful operators after
   * this one.
   */
  private def result(field: StructField): Attribute = {
    val isTime = timestamp.exists(time =>
      isWatermarked(time) && time.name == field.name && time.dataType == field.dataType
    )
    val metadata = if (isTime) timestamp.get.metadata else field.metadata
    AttributeReference(field.name, field.dataType, field.nullable, metadata)()
  }

  private def check(): Unit = {
    if (keys.isEmpty)
      throw new IllegalArgumentException(s"${spec.name}: at least one key column is needed (by=...)")
    keys.foreach(checkKey)
    timestamp.foreach(checkTimestamp)
    if (spec.timeSorted) {
      val time = timestamp.getOrElse(throw KeyedErrors.sortedWithoutTime(spec.name))
      if (analyzed.isStreaming && !hasWatermark)
        throw KeyedErrors.sortedWithoutWatermark(spec.name, time.name)
      if (analyzed.isStreaming && !isWatermarked(time)) {
        val watermark = analyzed.output.find(isWatermarked).fold("another column")(_.name)
        throw KeyedErrors.sortedByOther(spec.name, time.name, watermark)
      }
    }
  }

  private def checkKey(key: Attribute): Unit = {
    def has(wanted: DataType => Boolean) = SparkAdapter.contains(key.dataType)(wanted)
    if (has(_.isInstanceOf[MapType]) || has(_.isInstanceOf[VariantType]))
      throw KeyedErrors.keyWithoutEquality(spec.name, key.name, key.dataType.sql)
    if (!SparkAdapter.isBinaryStable(key.dataType))
      throw KeyedErrors.keyCollation(spec.name, key.name, key.dataType.sql)
  }

  private def checkTimestamp(column: Attribute): Unit =
    if (!isTimestamp(column))
      throw new IllegalArgumentException(
        s"${spec.name}: the event time must be a timestamp, but ${column.name} is ${column.dataType.sql}: " +
          "convert it, for instance with timestamp_millis, and name the new column"
      )

  private def isWatermarked(column: Attribute): Boolean =
    column.metadata.contains(EventTimeWatermark.delayKey)

  /** A column of windows has a watermark too, and no time. */
  private def isEventTime(column: Attribute): Boolean = isWatermarked(column) && isTimestamp(column)

  private def isTimestamp(column: Attribute): Boolean =
    column.dataType == TimestampType || column.dataType == TimestampNTZType

  private def column(option: String, name: String): Attribute =
    SparkAdapter.columnsNamed(df, name) match {
      case Seq(only) => only
      case Seq() =>
        throw new IllegalArgumentException(
          s"${spec.name}: $option names the column '$name', which the DataFrame does not have. It has " +
            df.columns.mkString(", ")
        )
      case several => throw KeyedErrors.ambiguousColumn(spec.name, option, name, several.map(_.name))
    }
}
