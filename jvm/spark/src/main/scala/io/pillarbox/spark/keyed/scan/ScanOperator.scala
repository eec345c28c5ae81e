package io.pillarbox.spark.keyed.scan

import io.pillarbox.api.{StateDescriptor, StateTtl, TimeDomain, ValueState}
import io.pillarbox.operator.KeyedTarget
import io.pillarbox.spark.keyed.{KeyedOperator, KeyedOperatorContext, KeyedOperatorFactory}
import io.pillarbox.spark.state.{InitialTarget, UnsafeRowSerializer}
import io.pillarbox.timer.Timer
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.StructType

/**
 * Runs compiled SQL expressions: a row and the state of its key make the new state; the row and the new state
 * make the row that goes out. There are no timers.
 */
private[pillarbox] final class ScanOperator(program: ScanProgram)
    extends KeyedOperator
    with KeyedTarget[UnsafeRow, UnsafeRow] {
  private val joined = new JoinedRow

  /** A row with the state after it, and the state before it. */
  private val withOld = new JoinedRow
  private val old = new GenericInternalRow(1)
  private val usesOld = AttributeSet(program.emits).contains(program.old)
  private var initial: UnsafeProjection = _
  private var update: UnsafeProjection = _
  private var emit: UnsafeProjection = _
  private var context: KeyedOperatorContext = _
  private var state: ValueState[UnsafeRow] = _

  private val descriptor: StateDescriptor[ValueState[UnsafeRow]] = {
    val lasting = StateDescriptor.value(ScanOperator.StateName, new UnsafeRowSerializer(program.stateSchema))
    program.ttl.fold(lasting)(lasting.withTtl)
  }

  override def open(context: KeyedOperatorContext): Unit = {
    this.context = context
    state = context.backend.getOrCreate(descriptor)
    val row = program.row.getOrElse(context.task.input)
    def bound(expressions: Seq[Expression], columns: Seq[Attribute]) =
      context.projections.of(BindReferences.bindReferences(expressions, columns))
    initial = bound(program.initials, row)
    update = bound(program.updates, row ++ program.state)
    emit = bound(program.emits, row ++ program.state ++ Option.when(usesOld)(program.old))
  }

  override def initialTargets: Map[String, () => InitialTarget] = {
    val shown = UnsafeRowSerializer.shownType(program.stateSchema)
    def target = InitialTarget.of(context.backend, descriptor, shown, null)(
      identity,
      UnsafeRowSerializer.fromShown(program.stateSchema)
    )
    Map(ScanOperator.StateName -> (() => target))
  }

  override def timerDomains: Set[TimeDomain] = Set.empty

  override def target: KeyedTarget[UnsafeRow, UnsafeRow] = this

  override def usesEventTime: Boolean = program.ttl.exists(_.timeDomain == TimeDomain.EVENT_TIME)

  override def firesWithin: Boolean = false

  override def takeRow(row: UnsafeRow, time: Long): Unit = takeRow(context.keyOf(row), row, time)

  override def takeRow(key: UnsafeRow, row: UnsafeRow, time: Long): Unit = {
    context.backend.setCurrentKey(key)
    val known = state.value()
    val before = if (known == null) initial(row) else known
    val next = update(joined(row, before)).copy()
    state.update(next)
    val after = joined(row, next)
    context.collect(emit(if (usesOld) addOld(after, before) else after))
  }

  private def addOld(after: InternalRow, before: UnsafeRow): InternalRow = {
    old(0) = before
    withOld(after, old)
  }

  override def takeTimer(timer: Timer[UnsafeRow], horizon: Long): Unit =
    throw new IllegalStateException(s"A scan registers no timers, found $timer in its checkpoint")

  override def startKey(key: UnsafeRow): Unit = ()

  override def endKey(key: UnsafeRow): Unit = {
    context.backend.setCurrentKey(key)
    state.clear()
  }

  override def settle(horizon: Long): Unit = ()

  override def close(): Unit = ()
}

private[pillarbox] object ScanOperator {
  private final val StateName = "scan"

  final case class Factory(program: ScanProgram) extends KeyedOperatorFactory {
    override def form: String = "scan"
    override def create(): KeyedOperator = new ScanOperator(program)
    override def expressions: Seq[Expression] = program.initials ++ program.updates ++ program.emits

    override def withExpressions(optimized: Seq[Expression]): KeyedOperatorFactory = {
      val (initials, rest) = optimized.splitAt(program.initials.size)
      val (updates, emits) = rest.splitAt(program.updates.size)
      Factory(program.copy(initials = initials, updates = updates, emits = emits))
    }
  }
}

/**
 * The resolved expressions of a scan.
 *
 * @param state columns of the state
 * @param old the column with the state before the row, a struct
 * @param initials over the columns of a row
 * @param updates over a row and the old `state`, all at once
 * @param emits over a row, the new `state` and `old`
 * @param row the columns of a row, in its order, where they are none of the plan's, so that the optimizer
 *   knows nothing of them: those of rows that wait for the watermark
 */
private[pillarbox] final case class ScanProgram(
    state: Seq[Attribute],
    old: Attribute,
    initials: Seq[Expression],
    updates: Seq[Expression],
    emits: Seq[Expression],
    ttl: Option[StateTtl],
    row: Option[Seq[Attribute]] = None
) {
  def stateSchema: StructType = DataTypeUtils.fromAttributes(state)
}
