package io.pillarbox.spark.async

import java.util.{ArrayDeque, Collection => JCollection}

import io.pillarbox.async.queue.AsyncOutput
import io.pillarbox.mailbox.InputStatus
import io.pillarbox.spark.task.{OperatorInput, OperatorMailbox, OperatorMailboxes, Projections, SourceInput}
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.JoinedRow
import org.apache.spark.sql.pillarbox.{SourceContext, SparkAdapter}

/**
 * The rows of one partition with the results of their calls. Pulling it drives the operator.
 *
 * Nothing is opened before the first row is asked for, nor for an empty partition, since a worker is costly.
 * For the same reason everything is released after the last row, and not at the end of the task, which may
 * read other partitions (`coalesce`).
 *
 * An operator that is chained behind this one on the same thread pulls it with `poll` and not with `hasNext`,
 * which waits: so it can emit its own rows that are ready while this one has none.
 *
 * @param rows the operator's input
 * @param reading the context of the thread that reads rows of no operator, if they have one of their own
 */
private[pillarbox] final class AsyncIOIterator(
    task: AsyncIOTaskSpec,
    rows: Iterator[InternalRow],
    context: TaskContext,
    reading: Option[SourceContext]
) extends Iterator[InternalRow]
    with AsyncOutput[InternalRow, InternalRow] {

  private val operatorMailbox: OperatorMailbox = rows match {
    case chained: AsyncIOIterator => chained.operatorMailbox
    case _ => OperatorMailboxes.newMailbox(context)
  }
  private val priority = operatorMailbox.nextPriority()
  private val input: OperatorInput = rows match {
    case chained: AsyncIOIterator => new ChainedInput(chained)
    case other =>
      reading.fold[OperatorInput](new OperatorInput.Waiting(other.map(_.copy())))(
        new SourceInput(other, operatorMailbox, priority, context, _)
      )
  }
  private val readyInputs = new ArrayDeque[InternalRow]
  private val readyResults = new ArrayDeque[InternalRow]
  private val joined = new JoinedRow
  private val projections = new Projections(task.lending(context))
  private val toUnsafe = projections.of(SparkAdapter.references(task.columns.output))
  private var driver: AsyncTaskLoop = _
  private var started = false
  private var ended = false
  private var progress: Runnable = () => ()

  override def hasNext: Boolean = !readyInputs.isEmpty || (!ended && pull()) || {
    projections.giveBack()
    false
  }

  private def pull(): Boolean = {
    operatorMailbox.enter()
    try {
      awaitRow()
      if (isFinished) {
        ended = true
        operatorMailbox.finish()
      }
    } finally operatorMailbox.leave()
    !readyInputs.isEmpty
  }

  /** Waits until there is a row; false if none follows. Inside the mailbox, which stays open. */
  private[async] def awaitRow(): Boolean = {
    if (!started) start()
    while (readyInputs.isEmpty && !isFinished) driver.step()
    !readyInputs.isEmpty
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException("The partition has no more rows")
    task.metrics(AsyncIOMetrics.OutputRows) += 1
    toUnsafe(joined(readyInputs.poll(), readyResults.poll()))
  }

  /** Does what needs no wait, until there is a row, and returns where that has led. Inside the mailbox. */
  private[async] def poll(): InputStatus = {
    if (!started) start()
    while (readyInputs.isEmpty && !isFinished && driver.stepWithoutWaiting()) {}
    if (isFinished && driver != null) driver.close()
    if (!readyInputs.isEmpty) InputStatus.MoreAvailable
    else if (isFinished) {
      projections.giveBack()
      InputStatus.EndOfData
    } else InputStatus.NothingAvailable
  }

  /** Sets what runs, on this thread, when another `poll` may find more. */
  private[async] def onProgress(hook: Runnable): Unit = progress = hook

  override def emit(row: InternalRow, timestampMs: Long, results: JCollection[InternalRow]): Unit = {
    results.forEach(result => add(row, result))
    progress.run()
  }

  override def emitOne(row: InternalRow, timestampMs: Long, result: InternalRow): Unit = {
    add(row, result)
    progress.run()
  }

  private def add(row: InternalRow, result: InternalRow): Unit = {
    readyInputs.add(row)
    readyResults.add(result)
  }

  private def isFinished: Boolean = driver == null || driver.isFinished

  private def start(): Unit = {
    started = true
    if (input.awaitRow()) {
      driver = new AsyncTaskLoop(task, input, this, operatorMailbox, priority, context, () => progress.run())
      operatorMailbox.closeAtEnd(driver)
      driver.open()
    }
  }
}
