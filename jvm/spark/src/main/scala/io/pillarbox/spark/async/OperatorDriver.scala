package io.pillarbox.spark.async

import io.pillarbox.async.queue.AsyncOutput
import io.pillarbox.async.{AsyncMetrics, AsyncWaitOperator}
import io.pillarbox.mailbox._
import io.pillarbox.spark.task.{LaneResource, TaskLane, UserErrors}
import io.pillarbox.spark.worker.PythonTaskFailure
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.pillarbox.TaskKills

/**
 * Runs one async operator on the thread that pulls its rows, from the first row to the last. All inside its
 * lane.
 *
 * The default action takes an input row; answers, deadlines and retries come as mail. With no room for a row,
 * or no more rows, the default action is suspended and the thread sleeps on the mailbox.
 *
 * @param progress
 *   told when a step may do something again after one had nothing to do
 */
private final class OperatorDriver(
    task: AsyncIOTaskSpec,
    input: OperatorInput,
    output: AsyncOutput[InternalRow, InternalRow],
    lane: TaskLane,
    priority: Int,
    context: TaskContext,
    progress: Runnable
) extends LaneResource {
  private val processor =
    new MailboxProcessor(
      controller => takeInput(controller),
      lane.mailbox,
      false,
      TaskActionExecutor.Immediate
    )
  private val executor = processor.mailboxExecutor(priority)
  private val timers = new SystemProcessingTimeService(executor)
  private val metrics = new AsyncMetrics
  private val calls =
    translating(TaskCalls.of(task, context, error => processor.reportThrowable(named(error))))
  private val operator =
    new AsyncWaitOperator(
      calls.function,
      task.options(calls.gate, calls.answers),
      executor,
      timers,
      output,
      metrics,
      0L
    )
  private var pending: InternalRow = _
  private var suspension: MailboxDefaultAction.Suspension = _
  private var awaitsInput = false
  private var inputEnded = false
  private var closed = false

  calls.connect(operator)
  operator.onCapacityAvailable(() => resume())
  input.onProgress(() => if (awaitsInput) resume())

  /** Opens the function: starts the Python worker, opens its resource. Blocks. */
  def open(): Unit = translating(operator.open())

  /** Whether all rows have been taken, called and emitted. */
  def isFinished: Boolean = inputEnded && operator.isDrained

  /** One step; sleeps if there is nothing to do. */
  def step(): Unit = {
    TaskKills.check(context)
    translating(lane.step(processor))
  }

  /** As `step`, but never sleeps; false if there was nothing to do. */
  def stepWithoutWaiting(): Boolean = {
    TaskKills.check(context)
    translating(lane.stepWithoutWaiting(processor))
  }

  private def resume(): Unit = {
    awaitsInput = false
    suspension.resume()
    progress.run()
  }

  private def takeInput(controller: MailboxDefaultAction.Controller): Unit =
    if (pending != null) process(pending, controller)
    else
      input.poll() match {
        case Polled.Row => process(input.next(), controller)
        case Polled.Nothing =>
          awaitsInput = true
          suspension = controller.suspendDefaultAction()
        case Polled.End =>
          inputEnded = true
          operator.endInputReached()
          suspension = controller.suspendDefaultAction()
      }

  private def process(row: InternalRow, controller: MailboxDefaultAction.Controller): Unit = {
    pending = if (operator.tryProcessElement(row, AsyncOutput.NoTimestamp)) null else row
    if (pending != null) suspension = controller.suspendDefaultAction(lane.mailbox.metrics.backPressuredTime)
  }

  /** Shows the user's errors as such, and the end of a killed task as a kill. */
  private def translating[T](body: => T): T =
    try body
    catch {
      case failure: PythonTaskFailure => throw named(failure)
      case interrupted: InterruptedException =>
        TaskKills.check(context)
        throw interrupted
    }

  /** Operators of one thread run each other's mail, so an error says by itself whose it is. */
  private def named(error: Throwable): Throwable = error match {
    case failure: PythonTaskFailure => UserErrors.failure(failure.report(task.spec.operator))
    case other => other
  }

  /** Cancels what is in flight and gives the worker back. Idempotent. */
  override def close(): Unit = if (!closed) {
    closed = true
    timers.close()
    try translating(operator.close())
    finally {
      val limit = calls.limitShare
      calls.close()
      TaskMetrics.publish(task.metrics, metrics, lane.mailbox.metrics): Unit
      if (limit > 0) task.metrics(AsyncIOMetrics.ConcurrencyNow).set(limit.toDouble)
    }
  }

  override def abort(): Unit = calls.abort()
}
