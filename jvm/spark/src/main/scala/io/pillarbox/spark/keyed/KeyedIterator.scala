package io.pillarbox.spark.keyed

import io.pillarbox.api.TimeDomain
import io.pillarbox.spark.state.{PartitionState, StateSource}
import io.pillarbox.spark.task.{
  MailboxResource,
  OperatorInput,
  OperatorMailboxes,
  Projections,
  RunToEnd,
  SourceInput
}
import io.pillarbox.state.StateException
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.pillarbox.{SourceContext, TaskThreads}

/**
 * The rows that a keyed operator makes of one partition. Pulling it drives the operator; after the last row,
 * the state is committed.
 *
 * In a batch, nothing is opened for a partition without rows or initial state. In a stream, a function that
 * has been opened once is not opened for a partition with neither rows nor due timers, as most partitions of
 * a small micro-batch are.
 *
 * @param initial the rows of the state that the query starts with
 * @param query the run of the query, whose tasks lend each other their projections; None in a batch
 * @param reading in real-time mode the context of `input`, which a thread of its own reads
 */
private[pillarbox] final class KeyedIterator(
    task: KeyedTaskSpec,
    input: Iterator[InternalRow],
    source: StateSource,
    taskContext: TaskContext,
    initial: Iterator[InternalRow] = Iterator.empty,
    query: Option[String] = None,
    reading: Option[SourceContext] = None
) extends Iterator[InternalRow] {
  private val operatorMailbox = OperatorMailboxes.newMailbox(taskContext)
  private val ready = new ReadyRows(if (task.spec.late.isEmpty) null else new LateOutput(task))
  private val projections = new Projections(query)
  private lazy val toUnsafe = UnsafeProjection.create(task.spec.output)
  private val outputRows = task.metrics("numOutputRows")
  private var isOpen = false
  private var driver: KeyedTaskLoop = _
  @volatile private var started = false
  private var ended = false
  private var isEndEnsured = false
  private var startNanos = 0L
  private var puller: Thread = _

  // For who asks for no row at all. Sources that have started would be closed before it is called.
  if (!task.isBatch && !taskContext.isCompleted()) RunToEnd.of(taskContext)(if (!started) runToEnd())(())

  override def hasNext: Boolean =
    !ended && (!ready.isEmpty && (puller eq Thread.currentThread()) || pull())

  /** True if rows behind the watermark are processed. Once a row has come. */
  def takesLateRows: Boolean = driver.takesLateRows

  private def pull(): Boolean = {
    operatorMailbox.enter()
    try {
      puller = Thread.currentThread()
      if (!started) start()
      while (ready.isEmpty && !ended) step()
      if (!ready.isEmpty) ensureEnd()
      // The end of the task may then come on another thread, in the middle of a row.
      if (!TaskThreads.isTaskThread) ready.settle()
    } catch misfit
    finally operatorMailbox.leave()
    !ready.isEmpty
  }

  /** Has the task run to its end. Registered only when rows come and their sources have been started. */
  private def ensureEnd(): Unit = if (!isEndEnsured && !task.isBatch) {
    isEndEnsured = true
    RunToEnd.of(taskContext)(runToEnd())(())
  }

  private def runToEnd(): Unit =
    if (puller eq Thread.currentThread()) while (hasNext) next()
    else if (!ended) {
      operatorMailbox.enter()
      try {
        if (!started) start()
        // The thread that pulled, if one did, may be taking a row at this moment.
        ready.dropNew()
        while (!ended) step()
      } catch misfit
      finally operatorMailbox.leave()
    }

  private val misfit: PartialFunction[Throwable, Nothing] = { case problem: StateException =>
    throw KeyedErrors.stateMisfit(task.spec.name, problem)
  }

  private def step(): Unit = if (driver == null || driver.isFinished) end() else driver.step()

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException("The partition has no more rows")
    outputRows += 1
    ready.poll() match {
      case unsafe: UnsafeRow => unsafe
      case other => toUnsafe(other)
    }
  }

  private def start(): Unit = {
    started = true
    startNanos = System.nanoTime
    if (!task.isBatch || input.hasNext || initial.hasNext) {
      operatorMailbox.closeAtEnd(source)
      val shown = KeyedMetrics.show(task.spec.name, task.metrics)
      operatorMailbox.closeAtEnd(new MailboxResource { override def close(): Unit = shown.close() })
      val state = source.open()
      isOpen = true
      operatorMailbox.onHandOver(() => state.takeOver())
      if (isQuiet(state)) task.metrics.get(KeyedMetrics.QuietPartitions).foreach(_ += 1)
      else {
        driver = new KeyedTaskLoop(task, inputOf(), state, ready, operatorMailbox, taskContext, projections)
        operatorMailbox.closeAtEnd(driver)
        driver.open()
        driver.start(initial)
      }
    }
  }

  private def inputOf(): OperatorInput =
    reading.fold[OperatorInput](new OperatorInput.Waiting(input))(
      new SourceInput(input, operatorMailbox, operatorMailbox.nextPriority(), taskContext, _)
    )

  /** In real-time mode nobody knows. */
  private def isQuiet(state: PartitionState): Boolean = reading.isEmpty && state.isClaimed && {
    state.takeOver()
    !input.hasNext &&
    !state.timers.isDue(TimeDomain.EVENT_TIME, task.watermark) &&
    !state.timers.isDue(TimeDomain.PROCESSING_TIME, task.batchTime)
  }

  private def end(): Unit = {
    ended = true
    if (driver != null) driver.close()
    // Another thread may be taking a row of theirs at this moment.
    if (puller eq Thread.currentThread()) projections.giveBack()
    if (isOpen) {
      task.metrics.get("allUpdatesTimeMs").foreach(_ += (System.nanoTime - startNanos) / 1000000)
      source.commit()
    }
    operatorMailbox.finish()
  }
}
