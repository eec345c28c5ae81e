package io.pillarbox.spark.keyed.jvm

import scala.jdk.OptionConverters._

import io.pillarbox.api.{KeyedProcessFunction, OutputTag, TimeDomain}
import io.pillarbox.operator.{FunctionStates, FunctionTarget, Output}
import io.pillarbox.spark.keyed.{KeyedErrors, KeyedOperatorContext}
import io.pillarbox.spark.state.{InitialTarget, StoredType}
import io.pillarbox.state.KeyedStateBackend
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types.StructType

/** A user's function that has been opened, with its states. Lives as long as they are open. */
private final class OpenedFunction(
    val function: KeyedProcessFunction[Row, Row, Row],
    val states: FunctionStates[UnsafeRow]
) extends AutoCloseable {

  /** The targets of initial values, by the names of the states. */
  def initialTargets(operator: String, backend: KeyedStateBackend[_]): Map[String, () => InitialTarget] =
    states.all.map { case (name, descriptor) =>
      name -> (() => JvmInitialTarget.of(operator, backend, descriptor))
    }

  /** Keys are compared by their bytes. */
  def checkMapKeys(operator: String): Unit = for {
    (name, descriptor) <- states.all
    keys <- Option(descriptor.userKeySerializer)
    stored <- StoredType.known(keys.snapshot) if !SparkAdapter.isBinaryStable(stored.dataType)
  } throw KeyedErrors.named(
    "MAP_KEY_COLLATION",
    operator,
    "state" -> name,
    "data_type" -> stored.dataType.sql
  )

  /** True if the function has timers, or state that expires by event time. After its `open`. */
  lazy val usesEventTime: Boolean =
    handlesTimers || states.all.values.exists(_.ttl.toScala.exists(_.timeDomain == TimeDomain.EVENT_TIME))

  /** True if the function's class, or one that it extends, has an `onTimer` of its own. */
  lazy val handlesTimers: Boolean = {
    val base = classOf[KeyedProcessFunction[Row, Row, Row]]
    val parameters = base.getMethods.find(_.getName == "onTimer").get.getParameterTypes
    function.getClass.getMethod("onTimer", parameters: _*).getDeclaringClass != base
  }

  /** Closes the function, which nobody uses any more. Any thread. */
  override def close(): Unit = function.close()
}

/** Converts rows and keys for a JVM function. */
private final class RowView(context: KeyedOperatorContext)
    extends FunctionTarget.View[UnsafeRow, UnsafeRow, Row, Row] {
  private val ordinals = context.task.functionColumns
  private val toRow =
    CatalystTypeConverters.createToScalaConverter(StructType(ordinals.map(context.task.inputSchema(_))))
  private val columnsOf = SparkAdapter.view(DataTypeUtils.fromAttributes(context.task.input), ordinals)
  private val toKey = RowView.keys(context.task.keySchema)

  override def keyOf(row: UnsafeRow): UnsafeRow = context.keyOf(row)
  override def key(key: UnsafeRow): Row = toKey(key)
  override def input(row: UnsafeRow): Row = toRow(columnsOf(row)).asInstanceOf[Row]
  override def isLate(row: UnsafeRow): Boolean = context.isLate(row)
}

private object RowView {

  /** Returns a function from keys to what the function sees of them. */
  def keys(schema: StructType): UnsafeRow => Row = {
    val toRow = CatalystTypeConverters.createToScalaConverter(schema)
    key => toRow(key).asInstanceOf[Row]
  }
}

/** Takes the rows that a JVM function emits. Spark moves the watermark by itself. */
private final class RowOutput(context: KeyedOperatorContext) extends Output[Row] {
  private val results = new ResultRows(context.spec, context.task.text)

  override def collect(value: Row, timestamp: Long): Unit = context.collect(results.main(value))
  override def collect[X](tag: OutputTag[X], value: X, timestamp: Long): Unit =
    context.collect(results.side(tag.id, value))
  override def fired(kind: TimeDomain): Unit = context.countTimers(kind, 1)
  override def emitWatermark(timestamp: Long): Unit = ()
}
