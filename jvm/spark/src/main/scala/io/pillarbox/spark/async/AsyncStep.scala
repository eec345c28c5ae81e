package io.pillarbox.spark.async

import java.util.concurrent.RejectedExecutionException

import io.pillarbox.async.queue.AsyncOutput
import io.pillarbox.async.{AsyncMetrics, AsyncWaitOperator, LongCalls}
import io.pillarbox.mailbox._
import io.pillarbox.metered.budget.BudgetExceeded
import io.pillarbox.spark.task.{FailedCalls, FirstFailures, MailboxStep, ReportedException}
import io.pillarbox.spark.worker.PythonTaskFailure
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.slf4j.LoggerFactory

/**
 * An async operator on a mailbox, whose default action takes rows in. Mailbox thread only.
 *
 * @param context the context of the task that makes it; not used once it is open
 * @param onRoom runs when there is room for a row again
 * @param takeInput the default action
 */
private[async] final class AsyncStep(
    task: AsyncIOTaskSpec,
    context: TaskContext,
    mailbox: TaskMailbox,
    priority: Int,
    output: AsyncOutput[InternalRow, InternalRow],
    firstElementId: Long
)(onRoom: Runnable)(takeInput: () => Unit) {
  val action = new MailboxStep(mailbox)(takeInput)
  val executor: MailboxExecutor = action.processor.mailboxExecutor(priority)
  val metrics = new AsyncMetrics(task.spec.usageUnits)
  val failed = FailedCalls.of(context, task.spec.operator)
  val taskUsage: TaskUsage = TaskUsage.of(task.spec, context, metrics, task.metrics)
  private val timers = new SystemProcessingTimeService(executor)
  val calls: TaskCalls =
    AsyncStep.callsOf(task, context, failed, error => action.processor.reportThrowable(named(error)))
  val operator: AsyncWaitOperator[InternalRow, InternalRow] = orClosed {
    new AsyncWaitOperator(
      calls.function,
      calls.adapted(task.options(calls.held, calls.answers, calls.tickets, calls.budget, failed)),
      executor,
      timers,
      output,
      metrics,
      firstElementId
    )
  }

  private val budget = calls.budget.filter(_ => task.spec.budget.exists(_.raises))
  private var onSettled: Runnable = () => ()

  /** Runs on any thread. */
  private val settled: Runnable = () =>
    try executor.execute(() => onSettled.run(), "the budget has heard of failed rows")
    catch { case _: RejectedExecutionException => () }

  /** The row that waits for room, or null. */
  var pending: InternalRow = _

  calls.connect(operator)
  operator.onCapacityAvailable(onRoom)
  private val shown = TaskMetrics.show(task.spec, metrics)

  /** Closes what is held if the operator can't be made, as then nobody closes this. */
  private def orClosed[A](made: => A): A =
    try made
    catch {
      case e: Throwable =>
        try calls.close()
        finally timers.close()
        throw e
    }

  /**
   * Opens the function, and from now on looks for calls that take long, and runs `eachSecond`, each second
   * until this is closed.
   */
  def open(eachSecond: Runnable): Unit = {
    operator.open()
    val timer = new ProcessingTimer {
      override def onProcessingTime(timestampMs: Long): Unit = {
        operator.longCalls(AsyncStep.LongMs).foreach(tell)
        eachSecond.run()
        timers.schedule(this, timers.currentProcessingTime + 1000L)
      }
    }
    timers.schedule(timer, timers.currentProcessingTime + 1000L)
  }

  /** The time of the machine when this was made, and from there on a clock that only goes forward. Any thread. */
  def nowMs: Long = timers.currentProcessingTime

  /** Runs `action`, by mail, when `ms` have passed; not at all if this is closed before. */
  def after(ms: Long)(action: () => Unit): Unit = {
    val timer: ProcessingTimer = _ => action()
    timers.schedule(timer, timers.currentProcessingTime + ms)
  }

  private def tell(calls: LongCalls[InternalRow]): Unit = {
    import calls.{attempt, callId, count, elapsedMs}
    val row = task.text.row(task.inputView()(calls.input), task.inputSchema)
    AsyncStep.log.warn(
      FirstFailures.longCalls(task.spec.operator, callId, attempt, row, elapsedMs / 1000, count - 1)
    )
  }

  /** Takes a row in, or keeps it until there is room. From within the default action. */
  def process(row: InternalRow, timestampMs: Long): Unit = {
    pending = if (operator.tryProcessElement(row, timestampMs)) null else row
    if (pending != null) action.suspend()
  }

  /** Sets the hook that runs, on the mailbox thread, when `isSettled` is to be asked again. */
  def onSettled(hook: Runnable): Unit = onSettled = hook

  /**
   * True once the driver has counted all rows that failed, in all tasks; false while it is asked.
   *
   * @throws ReportedException if more rows have failed than the budget lets
   */
  def isSettled: Boolean = budget.forall(_.settle(settled) match {
    case null => true
    case exceeded: BudgetExceeded => throw RowFailurePolicy.ofEnd(task.spec, exceeded)
    case _ => false
  })

  /** Counts in the metrics how often overload has stopped calls. */
  def countBreakers(): Unit = calls.held.takeBreakerCounts { (times, nanos) =>
    metrics.breakerOpenings += times
    metrics.breakerOpenNanos += nanos
  }

  /** Returns the error with the operator's name, since operators of one thread run each other's mail. */
  def named(error: Throwable): Throwable = AsyncStep.named(task, error)

  /** Reports the user's errors as such. */
  def naming[A](body: => A): A = AsyncStep.naming(task)(body)

  /** Cancels the calls in flight and gives the worker back. */
  def close(): Unit = {
    timers.close()
    budget.foreach(_.forget(settled))
    try naming(operator.close())
    finally
      try calls.close()
      finally {
        shown.close()
        failed.publish()
        taskUsage.end()
      }
  }
}

private[async] object AsyncStep {
  private val log = LoggerFactory.getLogger("io.pillarbox.LongCalls")
  private final val LongMs = 60000L

  private def named(task: AsyncIOTaskSpec, error: Throwable): Throwable = error match {
    case failure: PythonTaskFailure => new ReportedException(failure.report(task.spec.operator))
    case other => other
  }

  private def naming[A](task: AsyncIOTaskSpec)(body: => A): A =
    try body
    catch { case failure: PythonTaskFailure => throw named(task, failure) }

  /** A function of its own, so that the step does not keep the context. */
  private def callsOf(
      task: AsyncIOTaskSpec,
      context: TaskContext,
      failed: FailedCalls,
      fatal: Throwable => Unit
  ): TaskCalls = naming(task)(TaskCalls.of(task, context, failed, fatal))
}
