package io.pillarbox.spark.keyed

import io.pillarbox.api.StateDescriptor.Kind
import io.pillarbox.api.TimeDomain
import io.pillarbox.operator.WaitingRows
import io.pillarbox.spark.state.{InitialColumn, InitialLayout, InitialState, InitialTarget}
import io.pillarbox.spark.task.OperatorInput
import io.pillarbox.state.{Namespace, StateClock}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.pillarbox.{LosslessTypes, SparkAdapter}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Writes the rows of initial state, which come key by key, into the states of an operator that has just been
 * opened. Task thread only.
 *
 * An entry without a timestamp starts its life now, as far as the time is known.
 */
private final class InitialLoader(
    context: KeyedOperatorContext,
    layout: InitialLayout,
    operator: KeyedOperator,
    waiting: Option[WaitingRows[UnsafeRow, UnsafeRow]]
) {
  private val task = context.task
  private val name = task.spec.name
  private val targets = operator.initialTargets
  private val timerDomains = operator.timerDomains
  private val timers = new InitialTimers(name, operator.timerStates, layout.states.map(_.state))
  private val keys = layout.columns.take(task.keys.size)
  private val toKey =
    UnsafeProjection.create(
      BindReferences.bindReferences(keys.map(SparkAdapter.normalizeKey), layout.columns)
    )
  private val hasWholeRows = layout.states.exists(!_.isEntry)
  private val writers = layout.states.zipWithIndex.map { case (column, i) => writerOf(column, keys.size + i) }
  private var key: UnsafeRow = _

  /** @throws RuntimeException (INITIAL_STATE_TWICE) if a key has two values in a state, and others */
  def load(rows: Iterator[InternalRow]): Unit = {
    rows.foreach { row =>
      val next = toKey(row)
      if (next != key) {
        timers.endKey(shownKey)
        key = next.copy()
        writers.foreach(_.beginKey())
      } else if (hasWholeRows) throw twice("row")
      context.backend.setCurrentKey(key)
      writers.foreach(_.write(row))
    }
    timers.endKey(shownKey)
  }

  private def shownKey: String = task.text.key(key, task.keySchema)

  private def twice(what: String): RuntimeException =
    KeyedErrors.named("INITIAL_STATE_TWICE", name, "what" -> what, "key" -> shownKey)

  private def invalid(error: String, reason: String): RuntimeException =
    KeyedErrors.named(error, name, "key" -> shownKey, "reason" -> reason)

  private def misfit(column: InitialColumn, found: DataType, wanted: DataType): RuntimeException =
    refused(column, "INITIAL_STATE_TYPE", "found" -> found.sql, "wanted" -> wanted.sql)

  private def refused(column: InitialColumn, error: String, more: (String, Any)*): RuntimeException =
    KeyedErrors.named(error, name, ("state" -> column.state) +: more: _*)

  /** Writes one column of the rows. */
  private trait Writer {
    def beginKey(): Unit = ()
    def write(row: InternalRow): Unit
  }

  private def writerOf(column: InitialColumn, ordinal: Int): Writer = {
    val found = BoundReference(ordinal, layout.columns(ordinal).dataType, nullable = true)
    if (column.state == InitialState.Timers) new Timers(column, found)
    else if (column.state == WaitingRows.StateName && waiting.isDefined)
      new Waiting(column, found, waiting.get)
    else {
      val find = targets.getOrElse(
        column.state,
        throw refused(column, "INITIAL_STATE_UNKNOWN", "declared" -> KeyedErrors.quoted(targets.keys.toSeq))
      )
      val target = find()
      if (column.isEntry) new Entries(column, target, found) else new Whole(column, target, found)
    }
  }

  /** Writes a column that holds all that a key has in the state, in one row. */
  private final class Whole(column: InitialColumn, target: InitialTarget, found: BoundReference)
      extends Writer {
    private val value = reader(column, found, target.wholeType)

    override def write(row: InternalRow): Unit = {
      val all = value(row)
      if (all != null) target.kind match {
        case Kind.LIST =>
          val elements = all.asInstanceOf[ArrayData]
          elements.foreach(target.valueType, (_, element) => put(column, target, null, element))
        case Kind.MAP =>
          val map = all.asInstanceOf[MapData]
          map.foreach(target.mapKeyType, target.valueType, (key, one) => put(column, target, key, one))
        case _ => put(column, target, null, all)
      }
    }
  }

  /** Writes a column with one entry a row, as stored state is read. */
  private final class Entries(column: InitialColumn, target: InitialTarget, found: BoundReference)
      extends Writer {
    private val fields = found.dataType.asInstanceOf[StructType]
    private val isMap = target.kind == Kind.MAP
    if (isMap != fields.fieldNames.contains("map_key"))
      throw misfit(column, fields, target.wholeType)
    private val value = reader(column, field(found, "value"), target.valueType)
    private val time = reader(column, field(found, "timestamp"), TimestampType)
    private val mapKey =
      if (isMap) reader(column, field(found, "map_key"), target.mapKeyType)
      else (_: InternalRow) => null: Any

    /** The map keys that the key has had; null stands for a value. */
    private val seen = new java.util.HashSet[Any]

    override def beginKey(): Unit = seen.clear()

    override def write(row: InternalRow): Unit = if (!row.isNullAt(found.ordinal)) {
      val entry = mapKey(row)
      if (target.kind != Kind.LIST && !seen.add(InternalRow.copyValue(entry))) {
        val what =
          if (isMap) s"entry of one key in the map '${column.state}'" else s"value of '${column.state}'"
        throw twice(what)
      }
      put(column, target, entry, value(row), millis(time(row)))
    }
  }

  /** Registers one timer a row. A time beyond Spark's timestamps comes in milliseconds alone. */
  private final class Timers(column: InitialColumn, found: BoundReference) extends Writer {
    private val domain = reader(column, field(found, "time_domain"), StringType)
    private val time = reader(column, field(found, "timestamp"), TimestampType)
    private val epochMs =
      if (!found.dataType.asInstanceOf[StructType].fieldNames.contains("epoch_ms")) (_: InternalRow) => null
      else reader(column, field(found, "epoch_ms"), LongType)

    override def write(row: InternalRow): Unit = if (!row.isNullAt(found.ordinal)) {
      val at = timeOf(row)
      val domain = domainOf(row)
      if (!timerDomains.contains(domain)) {
        val shown = InitialState.nameOf(domain)
        throw invalid(
          "INITIAL_TIMER_INVALID",
          s"the time_domain $shown, whose timers the function does not handle"
        )
      }
      context.timers.register(domain, Namespace.Void, at)
      timers.register(domain, at)
    }

    private def timeOf(row: InternalRow): Long = time(row) match {
      case micros: Long => Math.floorDiv(micros, InputRows.MicrosPerMs)
      case _ =>
        epochMs(row) match {
          case ms: Long => ms
          case _ => throw invalid("INITIAL_TIMER_INVALID", "the time null")
        }
    }

    private def domainOf(row: InternalRow): TimeDomain = {
      val name = domain(row) match {
        case text: UTF8String => text.toString
        case _ => null
      }
      def shown = task.text.about(new StructType)(name)
      InitialState
        .domainOf(name)
        .getOrElse(throw invalid("INITIAL_TIMER_INVALID", s"the time_domain $shown"))
    }
  }

  /** A row of the input that waits for the watermark; the columns are found by their names. */
  private final class Waiting(
      column: InitialColumn,
      found: BoundReference,
      waiting: WaitingRows[UnsafeRow, UnsafeRow]
  ) extends Writer {
    private val value = field(found, "value")
    private val input = new InputRows(new OperatorInput.Waiting(Iterator.empty), null, null, task)
    private val toRow = UnsafeProjection.create(task.input.map(columnOf))

    override def write(row: InternalRow): Unit = if (!row.isNullAt(found.ordinal)) {
      val kept = toRow(row)
      if (context.keyOf(kept) != key)
        throw invalid("INITIAL_ROW_INVALID", "another key than its own columns have")
      waiting.add(key, kept, input.timeOf(kept))
    }

    private def columnOf(wanted: Attribute): Expression = value.dataType match {
      case row: StructType if row.fieldNames.contains(wanted.name) =>
        val at: Expression = GetStructField(value, row.fieldIndex(wanted.name))
        if (!LosslessTypes.canBecome(at.dataType, wanted.dataType)) throw misfit
        if (at.dataType == wanted.dataType) at else Cast(at, wanted.dataType, Some(task.timeZone))
      case _ => throw misfit
    }

    private def misfit: RuntimeException =
      InitialLoader.this.misfit(column, value.dataType, task.inputSchema)
  }

  private def field(struct: BoundReference, name: String): Expression =
    GetStructField(struct, struct.dataType.asInstanceOf[StructType].fieldIndex(name))

  private def put(
      column: InitialColumn,
      target: InitialTarget,
      key: Any,
      value: Any,
      time: Long = StateClock.Unknown
  ): Unit = {
    if (value == null || (key == null && target.kind == Kind.MAP))
      throw refused(column, "INITIAL_STATE_NULL")
    target.write(key, value, time)
    timers.write(column.state, value)
  }

  private def millis(micros: Any): Long = micros match {
    case known: Long => Math.floorDiv(known, InputRows.MicrosPerMs)
    case _ => StateClock.Unknown
  }

  /** Returns a reader of values whose type is the wanted one or can become it without loss. */
  private def reader(column: InitialColumn, value: Expression, wanted: DataType): InternalRow => Any = {
    val target = SparkAdapter.asNullable(wanted)
    if (!LosslessTypes.canBecome(SparkAdapter.asNullable(value.dataType), target))
      throw misfit(column, value.dataType, wanted)
    val cast = if (value.dataType == target) value else Cast(value, target, Some(task.timeZone))
    row => cast.eval(row)
  }
}
