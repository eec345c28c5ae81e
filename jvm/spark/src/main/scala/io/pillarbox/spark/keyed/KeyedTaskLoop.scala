package io.pillarbox.spark.keyed

import io.pillarbox.operator._
import io.pillarbox.spark.state.{PartitionState, UnsafeRowSerializer}
import io.pillarbox.spark.task.{MailboxResource, MailboxStep, OperatorInput, OperatorMailbox, Projections}
import io.pillarbox.state.StateException
import io.pillarbox.timer.{BatchExecutionInternalTimerService, PolledTimerService}
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.pillarbox.TaskKills

/**
 * Steps through the order of one operator's rows and timers, as the mailbox's default action, on the thread
 * that pulls its rows and inside its mailbox. The operator answers each event at once.
 */
private final class KeyedTaskLoop(
    task: KeyedTaskSpec,
    input: OperatorInput,
    state: PartitionState,
    ready: ReadyRows,
    operatorMailbox: OperatorMailbox,
    taskContext: TaskContext,
    projections: Projections
) extends MailboxResource {
  private val action = new MailboxStep(operatorMailbox.mailbox)(() => act())
  private val timers: PolledTimerService[UnsafeRow] = if (task.isBatch) batchTimers else state.timers
  private val context = new KeyedOperatorContext(task, state, timers, ready, taskContext, projections)
  private val operator = task.factory.create()
  private var order: KeyedSchedule = _
  private var rounds: LiveRounds = _
  private var rows: InputRows = _
  private var finished = false
  private var closed = false

  /** Opens the operator; may block. */
  def open(): Unit = {
    state.takeOver()
    state.clock.processingTime = task.batchTime
    state.clock.recordTimestamp = Output.NoTimestamp
    state.clock.advanceTo(task.lateWatermark)
    try {
      operator.open(context)
      order = orderOf(operator.target)
    } catch { case misfit: StateException => throw KeyedErrors.stateMisfit(task.spec.name, misfit) }
    checkStates()
    state.isClaimed = true
  }

  /** True if rows behind the watermark are processed. After `open`. */
  def takesLateRows: Boolean = lateRows.areProcessed

  private val watch = new KeyWatch(task, state.hotKeys, context.keyOf(_), taskContext)
  private lazy val lateRows = new LateRows(task, operator.usesEventTime, ready)

  /** Refuses state that the function no longer declares: a renamed state would silently be empty. */
  private def checkStates(): Unit = {
    val gone = state.backend.unclaimedStates
    if (gone.nonEmpty) {
      val declared = KeyedErrors.quoted(operator.initialTargets.keys.toSeq)
      val (name, state) = (task.spec.name, gone.mkString("', '"))
      throw KeyedErrors.named("STATE_GONE", name, "state" -> state, "declared" -> declared)
    }
  }

  /** Fills the state that a query starts with, before any row. */
  def start(initial: Iterator[InternalRow]): Unit = task.initial.foreach { layout =>
    new InitialLoader(context, layout, operator, waiting).load(initial)
  }

  /** True once all that was due has been processed. */
  def isFinished: Boolean = finished

  /** Takes some steps, after the mail of other operators of this thread. */
  def step(): Unit = {
    TaskKills.check(taskContext)
    try operatorMailbox.step(action.processor)
    catch {
      case interrupted: InterruptedException =>
        TaskKills.check(taskContext)
        throw interrupted
    }
  }

  /** Frees the task's resources. Idempotent. */
  override def close(): Unit = if (!closed) {
    closed = true
    try {
      if (rounds != null) rounds.close()
      watch.end()
    } finally operator.close()
  }

  override def abort(): Unit = operator.abort()

  /** The rows of a time-sorted stream that the watermark has not reached. */
  private lazy val waiting = Option.when(task.spec.timeSorted && !task.isBatch) {
    val serializer = new UnsafeRowSerializer(task.inputSchema)
    new WaitingRows(state.backend, state.timers, serializer, task.tieOrder())
  }

  private lazy val batchTimers = new BatchExecutionInternalTimerService[UnsafeRow](state.backend)

  private def orderOf(target: KeyedTarget[UnsafeRow, UnsafeRow]): KeyedSchedule = {
    rows = new InputRows(input, lateRows, watch, task)
    if (task.isBatch) {
      val ties = Option.when(task.spec.timeSorted)(task.tieOrder())
      val (keys, keyOf) = (state.backend.keySerializer, context.keyOf(_: UnsafeRow))
      val copy = (row: UnsafeRow) => row.copy()
      new BatchOrder(rows, keyOf, keys, batchTimers, state.clock, target, ties, copy)
    } else streamOrder(target)
  }

  private def streamOrder(target: KeyedTarget[UnsafeRow, UnsafeRow]): StreamOrder[UnsafeRow, UnsafeRow] = {
    val order = waiting match {
      case Some(rowsThatWait) =>
        new TimeSortedOrder(
          rows,
          context.keyOf(_: UnsafeRow),
          rowsThatWait,
          state.timers,
          state.clock,
          target
        )
      case None => new ArrivalOrder(rows, state.timers, state.clock, target)
    }
    if (task.isRealTime) rounds = new LiveRounds(task, input, rows, state, order, action, operatorMailbox)
    else order.advance(task.watermark, task.batchTime)
    order
  }

  /** Takes steps until rows come out, mail comes in or the task is killed, at most `StepsAtOnce`. */
  private def act(): Unit = {
    if (rounds != null) rounds.begin()
    var left = KeyedTaskLoop.StepsAtOnce
    var isDone = !stepOnce()
    while (!isDone && left > 1 && !mustLookUp) {
      isDone = !stepOnce()
      left -= 1
    }
    if (isDone) finished = rounds == null || rounds.end()
  }

  private def stepOnce(): Boolean = rows.skipLate() || order.step()

  private def mustLookUp: Boolean = !ready.isEmpty || operatorMailbox.hasMail || taskContext.isInterrupted()
}

private object KeyedTaskLoop {

  /** The number of steps over which the cost of a mailbox step is spread. */
  private final val StepsAtOnce = 64
}
