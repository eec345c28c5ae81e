package io.pillarbox.spark.keyed

import io.pillarbox.operator.KeyedTarget
import io.pillarbox.state.{StateTtlConfig, ValueState, ValueStateDescriptor}
import io.pillarbox.timer.Timer
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.StructType

/**
 * Runs compiled SQL expressions: a row and the state of its key make the new state; row and new state make the row that
 * goes out. No timers.
 */
final class ScanOperator(program: ScanProgram) extends KeyedOperator with KeyedTarget[UnsafeRow, UnsafeRow] {
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
    val toRow = UnsafeProjection.create(program.stateSchema)
    val write = (_: Any, value: Any) => state.update(toRow(value.asInstanceOf[InternalRow]).copy())
    Map(ScanOperator.StateName -> (() => InitialTarget(InitialKind.Value, program.stateSchema, null, write)))
  }

  override def target: KeyedTarget[UnsafeRow, UnsafeRow] = this

  override def firesWithin: Boolean = false

  override def tryRow(row: UnsafeRow, time: Long): Boolean = tryRow(context.keyOf(row), row, time)

  override def tryRow(key: UnsafeRow, row: UnsafeRow, time: Long): Boolean = {
    context.backend.setCurrentKey(key)
    val known = state.value()
    val next = update(joined(row, if (known == null) initial(row) else known)).copy()
    state.update(next)
    context.collect(emit(joined(row, next)))
    true
  }

  override def tryTimer(timer: Timer[UnsafeRow], horizon: Long): Boolean =
    throw new IllegalStateException(s"A scan registers no timers, found $timer in its checkpoint")

  override def startKey(key: UnsafeRow): Unit = ()

  override def tryEndKey(key: UnsafeRow): Boolean = {
    context.backend.setCurrentKey(key)
    state.clear()
    true
  }

  override def settle(horizon: Long): Unit = ()

  override def isSettled: Boolean = true

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
