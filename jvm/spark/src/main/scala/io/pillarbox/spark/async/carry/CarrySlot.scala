package io.pillarbox.spark.async.carry

import java.io.DataOutputStream
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.{CompletableFuture, CompletionException, ExecutionException}
import java.util.{Collection => JCollection}

import scala.util.control.NonFatal

import io.pillarbox.async.queue.AsyncOutput
import io.pillarbox.mailbox._
import io.pillarbox.spark.async.{AsyncIOTaskSpec, AsyncStep, TaskMetrics}
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{JoinedRow, UnsafeRow}
import org.apache.spark.sql.execution.metric.SQLMetric

/**
 * The operator of one slot, on a mailbox thread of its own, during and between micro-batches: retries,
 * deadlines and limits go on there. It has its Python worker until it is closed.
 *
 * The task of a micro-batch calls `beginBatch`, `put` for each row, `endBatch`; a failure of the slot comes
 * out of each of them. `close` is for any thread.
 *
 * @param context the context of the task that makes the slot; not used once it is open
 * @param maxLagMs the age of the oldest element from which on a micro-batch with rows waits for it
 * @param driver called on the slot's thread
 */
private[carry] final class CarrySlot(
    task: AsyncIOTaskSpec,
    columns: CarriedColumns,
    context: TaskContext,
    start: SlotState,
    maxLagMs: Long,
    driver: CarrySlot.Driver
) extends AsyncOutput[InternalRow, InternalRow]
    with AutoCloseable {
  private val thread = new Thread(() => run(), s"pillarbox ${task.spec.operator} ${task.site.scope}")
  private val async: AsyncStep = new AsyncStep(
    task,
    context,
    new TaskMailbox(thread),
    priority = 0,
    this,
    start.nextElementId
  )(() => async.action.resume())(() => takeInput())
  import async.{action, calls, executor, operator}
  async.onSettled(() => endIfDone())
  private val exchange =
    new InputExchange[CarriedRow](CarrySlot.Between, executor, () => action.resume())
  private val opened = new CompletableFuture[Void]
  private val closing = new AtomicBoolean
  private var published = Map.empty[String, Long]
  @volatile private var failure: Throwable = _
  @volatile private var waited: CompletableFuture[_] = _

  /** The results that belong to the state that `endBatch` has returned, in order, if they are few. Any thread. */
  @volatile var fewResults: Option[Seq[UnsafeRow]] = None

  // The slot's thread, from here on.
  private val joined = new JoinedRow
  private lazy val toResult = columns.toResult
  private val sink = new ResultSink
  private var ending: CarrySlot.Ending = _
  private var isCheckDue = false
  private var hasWoken = true
  private var version = 0L

  /** Task thread: opens the function, and calls again what the state holds. Blocks meanwhile. */
  def open(): Unit = {
    thread.setDaemon(true)
    thread.start()
    await(opened): Unit
  }

  /** Task thread: from now on the slot's thread writes results to `out`, until `endBatch` returns. */
  def beginBatch(out: DataOutputStream): Unit =
    await(onThread {
      hasWoken = true
      sink.open(out)
    })

  /** Task thread: hands a row over; waits while there is no room for it. */
  def put(row: CarriedRow): Unit = if (!exchange.put(row)) throw endedBy(failure)

  /**
   * Task thread: waits until all rows of the micro-batch are taken in, and, if there were any, a moment for
   * calls that are quick as a rule, and until the oldest element is not too old; then takes the state.
   *
   * @param version the version that the state becomes
   * @param drain true to wait until nothing is in flight
   */
  def endBatch(version: Long, hadRows: Boolean, drain: Boolean): SlotState = {
    val end = new CarrySlot.Ending(version, hadRows, drain)
    onThread {
      ending = end
      endIfDone()
    }
    if (failure != null) end.state.completeExceptionally(failure)
    await(end.state)
  }

  /** Task thread: hands what the calls have cost since the last time to Spark's UI and to the progress. */
  def publish(sql: Map[String, SQLMetric]): Unit = {
    val before = published
    async.failed.publish()
    async.taskUsage.isOf(sql)
    async.taskUsage.report()
    async.countBreakers()
    published = TaskMetrics.publish(sql, async.metrics, action.processor.mailbox.metrics, before)
    CarryMetrics.counts.foreach { case (name, metric) =>
      sql(name) += published(metric) - before.getOrElse(metric, 0L)
    }
  }

  /** The calls that its limit allows it at a time now; 0 without a limit. Any thread. */
  def limitShare: Long = calls.limitShare

  /** The error that ended the slot, or null. Any thread. */
  def failed: Throwable = failure

  private def onThread(action: => Unit): CompletableFuture[Void] = {
    val done = new CompletableFuture[Void]
    try
      executor.execute(
        () => {
          action
          done.complete(null): Unit
        },
        "for the task"
      )
    catch { case NonFatal(closed) => done.completeExceptionally(if (failure == null) closed else failure) }
    done
  }

  /** A slot that fails or is closed meanwhile completes what is waited for. */
  private def await[A](result: CompletableFuture[A]): A = {
    waited = result
    if (failure != null) result.completeExceptionally(failure)
    try result.get()
    catch { case failed: ExecutionException => throw endedBy(failed.getCause) }
  }

  private def endedBy(cause: Throwable): Throwable = cause match {
    case wrapped: CompletionException if wrapped.getCause != null => endedBy(wrapped.getCause)
    case null => new IllegalStateException(s"The slot ${task.site.scope} was closed")
    case other => other
  }

  private def run(): Unit = {
    try {
      async.open(() => ())
      operator.restore(start.notAfter(async.nowMs).elements)
      opened.complete(null)
      action.processor.runMailboxLoop()
    } catch { case error: Throwable => fail(async.named(error)) }
    try closeAll()
    catch { case NonFatal(error) => CarrySlot.log.warn(s"Could not close slot ${task.site.scope}", error) }
    finally fail(endedBy(null))
  }

  /** The first failure counts. */
  private def fail(error: Throwable): Unit = {
    val isFirst = failure == null
    if (isFirst) failure = error
    exchange.close()
    opened.completeExceptionally(failure)
    val waiting = waited
    if (waiting != null) waiting.completeExceptionally(failure)
    if (isFirst && !closing.get) driver.fail()
  }

  private def takeInput(): Unit = {
    val row = if (async.pending == null) exchange.poll() else async.pending
    if (row == null) action.suspend() else async.process(row, async.nowMs)
    endIfDone()
  }

  override def emit(row: InternalRow, admittedMs: Long, results: JCollection[InternalRow]): Unit = {
    results.forEach(result => add(row, result))
    afterResult()
  }

  override def emitOne(row: InternalRow, admittedMs: Long, result: InternalRow): Unit = {
    add(row, result)
    afterResult()
  }

  private def add(row: InternalRow, result: InternalRow): Unit =
    sink.add(toResult(joined(row, result)), row.asInstanceOf[CarriedRow].holdMicros)

  /** The state is taken by a mail of its own, when the operator is not in the middle of emitting. */
  private def afterResult(): Unit =
    if (ending != null) {
      if (!isCheckDue) {
        isCheckDue = true
        executor.execute(() => endIfDone(), "end of the micro-batch")
      }
    } else if (!sink.isOpen) tell()

  private def tell(): Unit = if (!hasWoken) {
    hasWoken = true
    driver.wake(version)
  }

  /** Tells the driver again what it heard since the last micro-batch, as messages get lost. Any thread. */
  def tellAgain(): Unit =
    if (failure != null) driver.fail()
    else onThread(if (hasWoken && ending == null) driver.wake(version)): Unit

  private def endIfDone(): Unit = {
    isCheckDue = false
    val hasAll = ending != null && async.pending == null && exchange.isEmpty
    if (hasAll) rowsEnd(ending)
    if (hasAll && mayEnd && async.isSettled) {
      val results = sink.close()
      fewResults = results.rows
      val state =
        SlotState(
          "",
          operator.snapshotState(),
          operator.nextElementId,
          results.count,
          results.holdMicros
        )
      hasWoken = false
      version = ending.version
      val end = ending
      ending = null
      end.state.complete(state): Unit
    }
  }

  /**
   * All rows of the micro-batch are taken in: incomplete groups go on. Calls that are quick as a rule get
   * twice the median of their times, as a result that comes before the end leaves a micro-batch earlier.
   */
  private def rowsEnd(end: CarrySlot.Ending): Unit = if (!end.hasAllRows) {
    end.hasAllRows = true
    operator.inputPauses()
    val median = async.metrics.latencies.medianMicros
    end.isPatient = end.hadRows && median <= CarrySlot.QuickMicros
    if (end.isPatient) async.after(math.max(CarrySlot.LeastMs, 2 * median / 1000)) { () =>
      end.isPatient = false
      if (ending eq end) endIfDone()
    }
  }

  private def mayEnd: Boolean =
    operator.isDrained || !ending.drain && !ending.isPatient &&
      (!ending.hadRows || async.nowMs - operator.oldestTimestampMs <= maxLagMs)

  private def closeAll(): Unit =
    try async.close()
    finally action.processor.mailbox.close(): Unit

  /** Cancels what is in flight and gives the worker back, on the slot's thread; does not wait. Idempotent. */
  override def close(): Unit = if (closing.compareAndSet(false, true)) {
    action.processor.allActionsCompleted()
    exchange.close()
    if (!opened.isDone) calls.abort()
  }

  /** Closes it, and has the micro-batch after `version` make its calls again. Any thread. */
  def giveUp(version: Long): Unit = {
    close()
    driver.wake(version)
  }

  /** Waits until a closed slot has given everything back, for `ms` at most. */
  def join(ms: Long): Unit = thread.join(ms)
}

private[carry] object CarrySlot {

  private val log = org.slf4j.LoggerFactory.getLogger(classOf[CarrySlot])

  /** What is between the task and the slot. */
  private val Between = InputExchange.Capacity[CarriedRow](64, 16L << 20, _.row.getSizeInBytes.toLong)

  /** Calls whose median is up to it are waited for, for twice the median and `LeastMs` at least. */
  private final val QuickMicros = 25000L
  private final val LeastMs = 5L

  /** Whoever decides on micro-batches. */
  trait Driver {

    /** After `endBatch`, with its version, when a result has come, and again now and then. */
    def wake(version: Long): Unit

    /** The slot has failed, and was not closed before. */
    def fail(): Unit
  }

  /** The state that the task waits for at the end of its input. */
  private final class Ending(val version: Long, val hadRows: Boolean, val drain: Boolean) {
    val state = new CompletableFuture[SlotState]
    var hasAllRows = false
    var isPatient = false
  }
}
