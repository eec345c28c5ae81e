package io.pillarbox.spark.keyed

import io.pillarbox.state.{StateTtlConfig, ValueState, ValueStateDescriptor}
import io.pillarbox.timer.Timer
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.StructType

/**
 * Runs compiled SQL expressions: a row and the state of its key make the new state; row and new state make the row that
 * goes out. No timers.
 */
final class ScanOperator(program: ScanProgram) extends KeyedOperator {
  private val joined = new JoinedRow
  private val initial = program.initial()
  private val update = program.update()
  private val emit = program.emit()
  private var context: KeyedOperatorContext = _
  private var state: ValueState[UnsafeRow] = _

  override def open(context: KeyedOperatorContext): Unit = {
    this.context = context
    state = context.backend.getOrCreate(
      ValueStateDescriptor(ScanOperator.StateName, new UnsafeRowSerializer(program.stateSchema), program.ttl)
    )
    Seq(initial, update, emit).foreach(_.initialize(context.taskContext.partitionId()))
  }

  override def initialTargets: Map[String, () => InitialTarget] = {
    val toRow = UnsafeRowSerializer.fromShown(program.stateSchema)
    val shown = UnsafeRowSerializer.shownType(program.stateSchema)
    val write = (_: Any, value: Any) => state.update(toRow(value))
    Map(ScanOperator.StateName -> (() => InitialTarget(InitialKind.Value, shown, null, write)))
  }

  override def tryProcessElement(row: UnsafeRow, timestamp: Long): Boolean = {
    context.backend.setCurrentKey(context.keyOf(row))
    // In a time-sorted batch the watermark follows the rows; in a stream the driver moves it.
    val watermark = if (context.isBatch && context.spec.timeSorted) timestamp - 1 else context.watermark
    context.withEvent(timestamp, watermark)
    val known = state.value()
    val next = update(joined(row, if (known == null) initial(row) else known)).copy()
    state.update(next)
    context.collect(emit(joined(row, next)))
    true
  }

  override def tryOnTimer(timer: Timer[UnsafeRow]): Boolean =
    throw new IllegalStateException(s"A scan registers no timers, found $timer in its checkpoint")

  override def tryEndKey(): Boolean = {
    state.clear()
    true
  }

  override def flush(): Unit = ()

  override def isIdle: Boolean = true

  override def close(): Unit = ()
}

object ScanOperator {
  private final val StateName = "scan"

  final case class Factory(program: ScanProgram) extends KeyedOperatorFactory {
    override def form: String = "scan"
    override def create(): KeyedOperator = new ScanOperator(program)
  }
}

/**
 * The resolved expressions of a scan.
 *
 * @param row
 *   columns of input rows
 * @param state
 *   columns of the state
 * @param initials
 *   over `row`
 * @param updates
 *   over `row` and the old `state`, all at once
 * @param emits
 *   over `row` and the new `state`
 */
final case class ScanProgram(
    row: Seq[Attribute],
    state: Seq[Attribute],
    initials: Seq[Expression],
    updates: Seq[Expression],
    emits: Seq[Expression],
    ttl: Option[StateTtlConfig]
) {
  def stateSchema: StructType = StructType(
    state.map(a => org.apache.spark.sql.types.StructField(a.name, a.dataType))
  )

  def initial(): UnsafeProjection = UnsafeProjection.create(initials, row)

  def update(): UnsafeProjection = UnsafeProjection.create(updates, row ++ state)

  def emit(): UnsafeProjection = UnsafeProjection.create(emits, row ++ state)
}
