package io.pillarbox.spark.keyed

import io.pillarbox.state.StateClock
import io.pillarbox.timer.TimerKind
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types._

/**
 * What is known of the rows of initial state, in each of which the key columns come first.
 *
 * @param columns
 *   of the rows: the keys, then one for each of `states`, then one that rows are sorted by
 * @param states
 *   what each column after the keys holds
 */
final case class InitialLayout(columns: Seq[Attribute], states: Seq[InitialColumn])

/**
 * A column of initial state.
 *
 * @param state
 *   the name of the state, or that which stands for the timers
 * @param isEntry
 *   whether it is a struct of `value`, `timestamp`, and a map's `map_key`, as stored state is read, one row an entry;
 *   otherwise all that a key has in the state
 */
final case class InitialColumn(state: String, isEntry: Boolean)

/** Initial state on its way to the tasks of the first micro-batch, partitioned as their input is. */
final case class InitialRows(layout: InitialLayout, rows: RDD[InternalRow])

/** What kind of state takes the values of an initial state. */
sealed trait InitialKind

object InitialKind {
  case object Value extends InitialKind
  case object List extends InitialKind
  case object Map extends InitialKind
}

/**
 * A state of an operator, as initial values get into it.
 *
 * @param valueType
 *   of the value, accumulator, element or entry, as Catalyst has it
 * @param mapKeyType
 *   of a map's keys, else null
 * @param write
 *   takes a map's key (or null) and a value for the current key
 */
final case class InitialTarget(
    kind: InitialKind,
    valueType: DataType,
    mapKeyType: DataType,
    write: (Any, Any) => Unit
) {

  /** All that a key can have in it. */
  def wholeType: DataType = kind match {
    case InitialKind.Value => valueType
    case InitialKind.List => ArrayType(valueType)
    case InitialKind.Map => MapType(mapKeyType, valueType)
  }
}

/**
 * Writes the rows of initial state into the states of an operator that has just been opened. Task thread only.
 *
 * An entry without a timestamp starts its life now, as far as the time is known.
 */
final private class InitialLoader(
    context: DriverContext,
    layout: InitialLayout,
    targets: Map[String, () => InitialTarget]
) {
  private val task = context.task
  private val keys = layout.columns.take(task.keys.size)
  private val toKey =
    UnsafeProjection.create(
      BindReferences.bindReferences(keys.map(SparkAdapter.normalizeKey), layout.columns)
    )
  private val writers = layout.states.zipWithIndex.map { case (column, i) => writerOf(column, keys.size + i) }

  def load(rows: Iterator[InternalRow]): Unit = {
    rows.foreach { row =>
      context.backend.setCurrentKey(toKey(row).copy())
      writers.foreach(_(row))
    }
    context.clock.recordTimestamp = StateClock.Unknown
    context.clock.processingTime = task.batchTime
  }

  private def writerOf(column: InitialColumn, ordinal: Int): InternalRow => Unit = {
    val attribute = layout.columns(ordinal)
    if (column.state == InitialState.Timers) timers(ordinal)
    else {
      val find = targets.getOrElse(
        column.state,
        throw KeyedErrors.initialStateUnknown(task.spec.name, column.state, targets.keys.toSeq)
      )
      val target = find()
      if (column.isEntry) entries(column, target, attribute, ordinal)
      else whole(column, target, attribute, ordinal)
    }
  }

  private def whole(
      column: InitialColumn,
      target: InitialTarget,
      attribute: Attribute,
      ordinal: Int
  ): InternalRow => Unit = {
    val value = reader(column, BoundReference(ordinal, attribute.dataType, nullable = true), target.wholeType)
    row => {
      val all = value(row)
      stamp(StateClock.Unknown)
      if (all != null) target.kind match {
        case InitialKind.Value => target.write(null, all)
        case InitialKind.List =>
          val elements = all.asInstanceOf[org.apache.spark.sql.catalyst.util.ArrayData]
          elements.foreach(target.valueType, (_, element) => write(column, target, null, element))
        case InitialKind.Map =>
          val map = all.asInstanceOf[org.apache.spark.sql.catalyst.util.MapData]
          map.foreach(target.mapKeyType, target.valueType, (key, one) => write(column, target, key, one))
      }
    }
  }

  private def entries(
      column: InitialColumn,
      target: InitialTarget,
      attribute: Attribute,
      ordinal: Int
  ): InternalRow => Unit = {
    val struct = BoundReference(ordinal, attribute.dataType, nullable = true)
    val fields = attribute.dataType.asInstanceOf[StructType]
    def field(name: String) = GetStructField(struct, fields.fieldIndex(name))
    val isMap = target.kind == InitialKind.Map
    if (isMap != fields.fieldNames.contains("map_key"))
      throw KeyedErrors.initialStateType(task.spec.name, column.state, fields.sql, target.wholeType.sql)
    val value = reader(column, field("value"), target.valueType)
    val mapKey =
      if (isMap) reader(column, field("map_key"), target.mapKeyType) else (_: InternalRow) => null: Any
    val time = field("timestamp")
    row =>
      if (!row.isNullAt(ordinal)) {
        val micros = time.eval(row)
        stamp(
          if (micros == null) StateClock.Unknown
          else Math.floorDiv(micros.asInstanceOf[Long], InputRows.MicrosPerMs)
        )
        write(column, target, mapKey(row), value(row))
      }
  }

  private def timers(ordinal: Int): InternalRow => Unit = row =>
    if (!row.isNullAt(ordinal)) {
      val timer = row.getStruct(ordinal, 2)
      val time = Math.floorDiv(timer.getLong(1), InputRows.MicrosPerMs)
      val isEvent = timer.getUTF8String(0).toString == InitialState.nameOf(TimerKind.EventTime)
      val void = io.pillarbox.state.Namespace.Void
      if (isEvent) context.timers.registerEventTimeTimer(void, time)
      else context.timers.registerProcessingTimeTimer(void, time)
    }

  private def write(column: InitialColumn, target: InitialTarget, key: Any, value: Any): Unit = {
    if (value == null) throw KeyedErrors.initialStateNull(task.spec.name, column.state)
    target.write(key, value)
  }

  /** The next write is stamped with this; without a time, as one that happens now. */
  private def stamp(timestamp: Long): Unit = {
    context.clock.recordTimestamp = timestamp
    context.clock.processingTime = if (timestamp == StateClock.Unknown) task.batchTime else timestamp
  }

  /** Reads values of a type that is, or can without loss become, the wanted one. */
  private def reader(column: InitialColumn, value: Expression, wanted: DataType): InternalRow => Any = {
    val target = SparkAdapter.asNullable(wanted)
    if (!SparkAdapter.canBecome(value.dataType, target))
      throw KeyedErrors.initialStateType(task.spec.name, column.state, value.dataType.sql, wanted.sql)
    val cast = if (value.dataType == target) value else Cast(value, target, Some(task.timeZone))
    row => cast.eval(row)
  }
}

object InitialState {

  /** Stands for the timers, where the name of a state is asked for. */
  final val Timers = "pillarbox timers"

  /** A kind of timer, in DataFrames of timers. */
  def nameOf(kind: TimerKind): String = kind match {
    case TimerKind.EventTime => "event_time"
    case TimerKind.ProcessingTime => "processing_time"
  }
}
