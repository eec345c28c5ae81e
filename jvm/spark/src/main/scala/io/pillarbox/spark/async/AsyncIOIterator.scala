package io.pillarbox.spark.async

import java.util.{ArrayDeque, Collection => JCollection}

import io.pillarbox.async.queue.AsyncOutput
import io.pillarbox.spark.task.{TaskLane, TaskLanes}
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{JoinedRow, UnsafeProjection}
import org.apache.spark.sql.pillarbox.SourceContext

/**
 * The rows of one partition with the results of their calls. Pulling it is what drives the operator.
 *
 * Nothing is opened until the first row is asked for, and nothing for an empty partition: a worker costs
 * something. For the same reason all is given back when the last row has been emitted, and not at the end of
 * the task, which may have other partitions to read (`coalesce`).
 *
 * An operator that is chained right behind this one on the same thread does not pull it with `hasNext`, which
 * waits, but with `poll`: so it can hand out its rows that are ready while this one has none.
 *
 * @param rows
 *   the operator's input
 * @param reading
 *   if rows that are no operator's are to be read on a thread of their own: the context of that thread
 */
private[pillarbox] final class AsyncIOIterator(
    task: AsyncIOTaskSpec,
    rows: Iterator[InternalRow],
    context: TaskContext,
    reading: Option[SourceContext]
) extends Iterator[InternalRow]
    with AsyncOutput[InternalRow, InternalRow] {

  private val lane: TaskLane = rows match {
    case chained: AsyncIOIterator => chained.lane
    case _ => TaskLanes.newLane(context)
  }
  private val priority = lane.nextPriority()
  private val input: OperatorInput = rows match {
    case chained: AsyncIOIterator => new OperatorInput.Chained(chained)
    case other =>
      reading.fold[OperatorInput](new OperatorInput.Waiting(other))(
        new SourceInput(other, lane, priority, context, _)
      )
  }
  private val readyInputs = new ArrayDeque[InternalRow]
  private val readyResults = new ArrayDeque[InternalRow]
  private val joined = new JoinedRow
  private val toUnsafe = UnsafeProjection.create(task.columns.output)
  private var driver: OperatorDriver = _
  private var started = false
  private var ended = false
  private var progress: Runnable = () => ()

  override def hasNext: Boolean = !readyInputs.isEmpty || (!ended && pull())

  private def pull(): Boolean = {
    lane.enter()
    try {
      awaitRow()
      if (isFinished) {
        ended = true
        lane.finish()
      }
    } finally lane.leave()
    !readyInputs.isEmpty
  }

  /**
   * Inside the lane: waits until there is a row; false if none follows. Leaves the lane open: the operator
   * that is chained behind this one goes on in it.
   */
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

  /**
   * Does what can be done without waiting, until there is a row, and says where that has led. For an operator
   * that has this one's lane, inside it.
   */
  private[async] def poll(): Polled = {
    if (!started) start()
    while (readyInputs.isEmpty && !isFinished && driver.stepWithoutWaiting()) {}
    if (isFinished && driver != null) driver.close()
    if (!readyInputs.isEmpty) Polled.Row else if (isFinished) Polled.End else Polled.Nothing
  }

  /** What to run, on this thread, when another `poll` may lead further than to nothing. */
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

  /** In Spark the watermark is the query's, between micro-batches, and no element of a plan. */
  private def isFinished: Boolean = driver == null || driver.isFinished

  private def start(): Unit = {
    started = true
    if (input.awaitRow()) {
      driver = new OperatorDriver(task, input, this, lane, priority, context, () => progress.run())
      lane.closeAtEnd(driver)
      driver.open()
    }
  }
}
