package io.pillarbox.spark.async

import io.pillarbox.async.queue.AsyncOutput
import io.pillarbox.mailbox.InputStatus
import io.pillarbox.spark.task.{MailboxResource, OperatorInput, OperatorMailbox}
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.pillarbox.TaskKills

/**
 * Runs one async operator on the thread that pulls its rows, from the first row to the last, inside its mailbox.
 *
 * The default action takes an input row; answers, deadlines and retries come as mail. When there is no room
 * for a row, or no row, the default action is suspended and the thread sleeps on the mailbox.
 *
 * @param onProgress runs when a step may do something again after one had nothing to do
 */
private final class AsyncTaskLoop(
    task: AsyncIOTaskSpec,
    input: OperatorInput,
    output: AsyncOutput[InternalRow, InternalRow],
    operatorMailbox: OperatorMailbox,
    priority: Int,
    context: TaskContext,
    onProgress: Runnable
) extends MailboxResource {
  private val async: AsyncStep = new AsyncStep(
    task,
    context,
    operatorMailbox.mailbox,
    priority,
    output,
    firstElementId = 0L
  )(() => resume())(() => takeInput())
  import async.{action, operator}
  private var awaitsInput = false
  private var inputEnded = false
  private var isSettled = false
  private var closed = false

  async.onSettled(onProgress)
  input.onProgress(() => if (awaitsInput) resume())

  private var published = Map.empty[String, Long]
  private val progress = TaskProgress.of(task, context, async.metrics)

  /** Opens the function: starts the Python worker, opens its resource. Blocks. */
  def open(): Unit = translating {
    async.open { () =>
      publish()
      async.taskUsage.tick()
      progress.foreach(_.report())
    }
  }

  /** Hands the figures so far to Spark, which shows them with the executor's next heartbeat. */
  private def publish(): Unit = {
    async.countBreakers()
    published = TaskMetrics.publish(task.metrics, async.metrics, operatorMailbox.mailbox.metrics, published)
  }

  /**
   * True once all rows have been taken, called and emitted, and those that failed are within the budget. What
   * it waits for comes as mail.
   */
  def isFinished: Boolean = isDrained && {
    if (!isSettled) isSettled = async.isSettled
    isSettled
  }

  private def isDrained: Boolean = inputEnded && operator.isDrained

  /** Does one step; sleeps if there is nothing to do. */
  def step(): Unit = {
    TaskKills.check(context)
    translating(operatorMailbox.step(action.processor))
  }

  /** Like `step`, but never sleeps; false if there was nothing to do. */
  def stepWithoutWaiting(): Boolean = {
    TaskKills.check(context)
    translating(operatorMailbox.stepWithoutWaiting(action.processor))
  }

  private def resume(): Unit = {
    awaitsInput = false
    action.resume()
    onProgress.run()
  }

  private def takeInput(): Unit =
    if (async.pending != null) process(async.pending)
    else
      input.poll() match {
        case InputStatus.MoreAvailable => process(input.next())
        case InputStatus.NothingAvailable =>
          awaitsInput = true
          action.suspend()
        case InputStatus.EndOfData =>
          inputEnded = true
          operator.endInputReached()
          action.suspend()
      }

  private def process(row: InternalRow): Unit = async.process(row, AsyncOutput.NoTimestamp)

  /** Reports the user's errors as such, and an interrupt of a killed task as a kill. */
  private def translating[T](body: => T): T =
    try async.naming(body)
    catch {
      case interrupted: InterruptedException =>
        TaskKills.check(context)
        throw interrupted
    }

  /** Cancels the calls in flight and gives the worker back. Idempotent. */
  override def close(): Unit = if (!closed) {
    closed = true
    val limit = async.calls.limitShare
    val isDone = isDrained && isSettled
    try translating(async.close())
    finally {
      publish()
      progress.foreach(_.end(isDone))
      task.metrics(AsyncIOMetrics.InFlight).set(0L)
      if (limit > 0) task.metrics(AsyncIOMetrics.ConcurrencyNow).set(limit.toDouble)
    }
  }

  override def abort(): Unit = async.calls.abort()
}
