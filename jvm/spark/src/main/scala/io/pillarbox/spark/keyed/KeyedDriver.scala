package io.pillarbox.spark.keyed

import io.pillarbox.mailbox.{MailboxDefaultAction, MailboxProcessor, TaskActionExecutor}
import io.pillarbox.spark.task.{LaneResource, TaskLane}
import io.pillarbox.state.StateException
import io.pillarbox.timer.TimerKind
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.pillarbox.TaskKills

/**
 * Feeds one operator, on the thread that pulls its rows and inside its lane: the rows of the micro-batch, then the event-time timers up to
 * the watermark, then the processing-time timers up to the batch's time, until no timer is due.
 *
 * The default action offers one event; an operator's answers come as mail. While the operator refuses an event, or has
 * answers to give before a stage is over, the default action is suspended and the thread sleeps on the mailbox.
 */
final private class KeyedDriver(
    task: KeyedTask,
    input: Iterator[InternalRow],
    state: PartitionState,
    ready: ReadyRows,
    lane: TaskLane,
    taskContext: TaskContext
) extends LaneResource {
  private val processor =
    new MailboxProcessor(controller => act(controller), lane.mailbox, false, TaskActionExecutor.Immediate)
  private val context = new DriverContext(
    task,
    state,
    ready,
    processor.mailboxExecutor(lane.nextPriority()),
    () => resume(),
    error => processor.reportThrowable(error),
    taskContext
  )
  private val operator = task.factory.create()
  private var stages: List[KeyedEvents] = Nil
  private var timerStages: List[KeyedEvents] = Nil
  private var suspension: MailboxDefaultAction.Suspension = _
  private var closed = false

  /** Opens the operator; may block. */
  def open(): Unit = {
    state.takeOver()
    state.clock.processingTime = task.batchTime
    context.atEvent(task.lateWatermark)
    try {
      operator.open(context)
      stages = firstStages()
    } catch { case misfit: StateException => throw KeyedErrors.stateMisfit(task.spec.name, misfit) }
    checkStates()
    state.isClaimed = true
  }

  /** State that the function no longer declares would be kept for ever, and a renamed one be empty without a word. */
  private def checkStates(): Unit = {
    val gone = state.backend.unclaimedStates
    if (gone.nonEmpty) throw KeyedErrors.statesGone(task.spec.name, gone, operator.initialTargets.keys.toSeq)
  }

  /** Fills the state that a query starts with, before any row. */
  def start(initial: Iterator[InternalRow]): Unit = task.initial.foreach { layout =>
    new InitialLoader(context, layout, operator.initialTargets).load(initial)
  }

  /** Whether all that was due has been processed and answered. */
  def isFinished: Boolean = stages.isEmpty

  /** One step; sleeps if there is nothing to do. */
  def step(): Unit = {
    TaskKills.check(taskContext)
    try lane.step(processor)
    catch {
      case interrupted: InterruptedException =>
        TaskKills.check(taskContext)
        throw interrupted
    }
  }

  /** Frees what belongs to the task. Idempotent. */
  override def close(): Unit = if (!closed) {
    closed = true
    operator.close()
  }

  override def abort(): Unit = operator.abort()

  private def firstStages(): List[KeyedEvents] =
    if (task.isBatch) {
      val order = Option.when(task.spec.timeSorted)(task.tieOrder())
      List(new SortedRows(input, context, operator, order))
    } else {
      val sorted = Option.when(task.spec.timeSorted)(new TimeSortedRows(state, task, task.tieOrder()))
      timerStages = List(
        new DueTimers(TimerKind.EventTime, task.watermark, state, sorted, context, operator),
        new DueTimers(TimerKind.ProcessingTime, task.batchTime, state, None, context, operator)
      )
      sorted.fold[KeyedEvents](new ArrivingRows(input, context, operator))(
        new BufferedRows(input, context, _)
      ) ::
        timerStages
    }

  private def act(controller: MailboxDefaultAction.Controller): Unit =
    if (stages.isEmpty) suspend(controller)
    else
      offerSome() match {
        case KeyedEvents.Taken => ()
        case KeyedEvents.Refused => suspend(controller)
        case KeyedEvents.Exhausted => endStage(controller)
      }

  /** Offers events until rows come out, mail comes in or the task is killed, but no more than some. */
  private def offerSome(): KeyedEvents.Offer = {
    var left = KeyedDriver.EventsAStep
    var offer = stages.head.offerNext()
    while (offer == KeyedEvents.Taken && left > 1 && !mustLookUp) {
      offer = stages.head.offerNext()
      left -= 1
    }
    offer
  }

  private def mustLookUp: Boolean = !ready.isEmpty || lane.hasMail || taskContext.isInterrupted()

  private def endStage(controller: MailboxDefaultAction.Controller): Unit = {
    operator.flush()
    if (!operator.isIdle) suspend(controller)
    else if (!stages.head.hasMore) {
      stages = stages.tail
      if (stages.isEmpty) stages = stagesDueAgain
      else enterTimers()
    }
  }

  /** Timers may have registered others whose time has come. */
  private def stagesDueAgain: List[KeyedEvents] = timerStages.dropWhile(!_.hasMore)

  private def enterTimers(): Unit = context.atEvent(task.watermark)

  private def suspend(controller: MailboxDefaultAction.Controller): Unit =
    suspension = controller.suspendDefaultAction()

  private def resume(): Unit = if (suspension != null) suspension.resume()
}

private object KeyedDriver {

  /** What a step costs is spread over so many. */
  private final val EventsAStep = 64
}
