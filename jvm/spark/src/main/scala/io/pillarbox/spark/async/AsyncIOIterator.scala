package io.pillarbox.spark.async

import java.util.{ArrayDeque, Collection => JCollection}

import io.pillarbox.async._
import io.pillarbox.mailbox._
import io.pillarbox.spark.plan.{AsyncIOFunction, AsyncIOMetrics}
import io.pillarbox.spark.python.{PythonChannel, PythonFailure}
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow, UnsafeProjection}
import org.apache.spark.sql.pillarbox.UserErrors
import org.apache.spark.sql.types.StructType

/** Drives one async operator by pulling: `hasNext` steps the mailbox until a row is ready or the input ended.
  *
  * All of it runs on the thread that pulls. The default action takes an input row; answers, deadlines and retries
  * come as mail. With no room for a row, or no more rows, the default action is suspended and the thread sleeps on
  * the mailbox.
  */
final class AsyncIOIterator(task: AsyncIOTask, input: Iterator[InternalRow], context: TaskContext)
    extends Iterator[InternalRow]
    with AsyncOutput[InternalRow, InternalRow] {

  private val priority = TaskMailboxes.of(context).nextPriority()
  private val readyInputs = new ArrayDeque[InternalRow]
  private val readyResults = new ArrayDeque[InternalRow]
  private val joined = new JoinedRow
  private val toUnsafe = UnsafeProjection.create(StructType(task.childSchema ++ task.resultSchema))
  private var running: Running = _
  private var inputEnded = false

  override def hasNext: Boolean = {
    if (readyInputs.isEmpty && !inputEnded && running == null) start()
    while (readyInputs.isEmpty && !isFinished) running.step()
    !readyInputs.isEmpty
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException("The partition has no more rows")
    task.metrics(AsyncIOMetrics.OutputRows) += 1
    toUnsafe(joined(readyInputs.poll(), readyResults.poll()))
  }

  override def emit(row: InternalRow, timestampMs: Long, results: JCollection[InternalRow]): Unit =
    results.forEach(result => emitOne(row, timestampMs, result))

  override def emitOne(row: InternalRow, timestampMs: Long, result: InternalRow): Unit = {
    readyInputs.add(row)
    readyResults.add(result)
  }

  override def emitWatermark(timestampMs: Long): Unit = ()

  private def isFinished: Boolean = inputEnded && (running == null || running.isDrained)

  /** Not before the first row is asked for, and not for an empty partition: a worker costs something. */
  private def start(): Unit =
    if (input.hasNext) {
      running = new Running
      running.open()
    } else inputEnded = true

  /** The operator and its surroundings, from the first row to the end of the task. */
  final private class Running {
    private val mailbox = TaskMailboxes.of(context).ofCurrentThread()
    private val processor =
      new MailboxProcessor(controller => takeInput(controller), mailbox, false, TaskActionExecutor.Immediate)
    private val executor = processor.mailboxExecutor(priority)
    private val timers = new SystemProcessingTimeService(executor)
    private val operator = makeOperator()
    private var suspension: MailboxDefaultAction.Suspension = _

    operator.onCapacityAvailable(() => suspension.resume())
    context.addTaskCompletionListener[Unit](_ => close())

    def open(): Unit = translating(operator.open())

    def isDrained: Boolean = operator.isDrained

    def step(): Unit = {
      if (context.isInterrupted()) context.killTaskIfInterruptedPublic()
      translating(processor.runMailboxStepBlocking())
    }

    private def takeInput(controller: MailboxDefaultAction.Controller): Unit =
      if (!operator.hasCapacity) suspendUntilRoom(controller)
      else if (input.hasNext) operator.processElement(input.next().copy(), AsyncOutput.NoTimestamp)
      else endInput(controller)

    private def suspendUntilRoom(controller: MailboxDefaultAction.Controller): Unit =
      suspension = controller.suspendDefaultAction(mailbox.metrics.backPressuredTime)

    private def endInput(controller: MailboxDefaultAction.Controller): Unit = {
      inputEnded = true
      operator.endInputReached()
      controller.suspendDefaultAction()
    }

    private def makeOperator(): AsyncWaitOperator[InternalRow, InternalRow] = ???

    private def close(): Unit = {
      timers.close()
      operator.close()
    }
  }
}
