package io.pillarbox.spark.async

import java.nio.ByteBuffer
import java.util
import java.util.concurrent.{CompletableFuture, ExecutionException, TimeUnit, TimeoutException}
import java.util.{Collection => JCollection}

import scala.collection.mutable
import scala.util.control.NonFatal

import io.pillarbox.async.queue.AsyncOutput
import io.pillarbox.async.retry.{FailedCall, FailurePolicy}
import io.pillarbox.async.{AsyncOptions, Keyed}
import io.pillarbox.mailbox.TaskMailbox
import io.pillarbox.spark.async.python._
import io.pillarbox.spark.task.Uninterruptibly
import io.pillarbox.spark.worker.{Frame, WorkerCalls}
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{JoinedRow, UnsafeRow}
import org.apache.spark.sql.pillarbox.TaskKills

/**
 * The attempts of a keyed function's calls in one task: an async operator on a thread of its own decides on
 * them, for the rows of one frame after the other, and the worker, which has the rows and the state of their
 * keys, makes them. A key has one call at a time, and what an attempt has written is kept unless the worker
 * hears before the key's next call that it was in vain.
 *
 * Public methods are for the task's thread, which reads the worker's messages.
 *
 * @param send sends the worker a frame
 * @param broken takes an error of the operator itself, on its thread
 */
private[async] final class KeyedAttempts(
    factory: KeyedAttempts.Factory,
    context: TaskContext,
    send: (Byte, ByteBuffer) => Unit,
    broken: Throwable => Unit
) extends WorkerCalls
    with AsyncOutput[InternalRow, InternalRow] {
  import KeyedAttempts._

  private val task = factory.task
  private var function: PythonAsyncFunction = _

  /** The amounts of a row that functions in the worker estimate. */
  private var functions = 0
  private val worker = new AttemptChannel(send, task.callNames())
  private val thread =
    new Thread(() => run(), s"pillarbox calls ${task.spec.name} ${context.taskAttemptId()}")
  private val async: AsyncStep = new AsyncStep(
    task.copy(function = AsyncIOFunction.Keyed(connected, adapted)),
    context,
    new TaskMailbox(thread),
    priority = 0,
    this,
    firstElementId = 0L
  )(() => async.action.resume())(() => takeInput())
  import async.{action, executor, operator}
  private val outcomes = new OutcomeReader(function)
  private val progress = TaskProgress.of(task, context, async.metrics)
  worker.onMore(() => executor.execute(() => worker.flush(), "tell the worker of attempts"))

  private var added = new mutable.ArrayBuffer[FrameRow]
  private var number = 0L
  private var published = Map.empty[String, Long]
  private var isClosed = false

  // The operator's thread, from here on.
  private var rows = IndexedSeq.empty[FrameRow]

  /** How many of the rows have been taken in, may be, and have ended. */
  private var taken = 0
  private var ready = 0
  private var ended = 0

  /** True once a call has failed for which the worker fails the task: no other begins. */
  private var hasFailed = false

  thread.setDaemon(true)
  thread.start()

  private def connected(made: PythonAsyncFunction): CallChannel = {
    function = made
    worker
  }

  private def adapted(options: Options): Options = {
    val charges = options.charges.collect { case charges: LimitCharges => charges }
    functions = charges.fold(0)(_.functions)
    options.copy(
      onFailure = new Failures(options.onFailure.asInstanceOf[RowFailurePolicy]),
      keyed = Some(Keyed(row => rowOf(row).key, callsPerKey = 1, mostWaiting = Some(MostWaiting))),
      charges = if (functions == 0) options.charges else charges.map(withReturned)
    )
  }

  private def withReturned(charges: LimitCharges): util.List[InternalRow] => Array[Double] = rows =>
    rowOf(rows.get(0)).returned match {
      case amounts: Array[Double] => charges.withReturned(charges(rows), amounts)
      case problem => throw problem.asInstanceOf[Throwable]
    }

  override def add(row: InternalRow): Unit = {
    added += new FrameRow(row.asInstanceOf[UnsafeRow].copy(), number)
    number += 1
  }

  override def begin(keyOf: Int => Int): Unit = if (added.nonEmpty) {
    val frame = added.toIndexedSeq
    frame.indices.foreach(i => frame(i).key = keyOf(i))
    added = new mutable.ArrayBuffer[FrameRow]
    executor.execute(() => takeFrame(frame), "calls of a frame")
  }

  override def take(message: Frame): Unit = message.kind match {
    case WorkerCalls.Answered => function.onResults(answersOf(message.body))
    case WorkerCalls.Amounts =>
      val amounts = amountsOf(message)
      executor.execute(() => takeAmounts(amounts), "amounts of rows")
    case _ => outcomes.take(message)
  }

  private def answersOf(body: ByteBuffer): CallResults = {
    val n = body.getInt
    val (ids, attempts) = (Array.fill(n)(body.getLong), Array.fill(n)(body.getInt))
    // The rows themselves stay in the worker.
    new CallResults(ids, attempts, Array.fill(n)(-1), Array.empty)
  }

  private def amountsOf(message: Frame): Seq[AnyRef] = Seq.fill(message.body.getInt) {
    if (message.body.get() == 0) Array.fill(functions)(message.body.getDouble)
    else
      new PythonCallException(message.readText(), message.readText(), message.readText(), retryable = false)
  }

  override def settle(): Unit = {
    val answer = new CompletableFuture[AnyRef]
    def ask(): Unit =
      try if (async.isSettled) answer.complete(null): Unit
      catch { case NonFatal(spent) => answer.completeExceptionally(spent): Unit }
    executor.execute(
      () => {
        async.onSettled(() => ask())
        ask()
      },
      "the end of a task's calls"
    )
    // Of a thread that has ended, `broken` has the reason.
    while (!answer.isDone && thread.isAlive) {
      TaskKills.check(context)
      try answer.get(SettleMs, TimeUnit.MILLISECONDS): Unit
      catch { case _: TimeoutException | _: ExecutionException => () }
    }
    if (answer.isDone)
      try answer.get(): Unit
      catch { case failed: ExecutionException => throw failed.getCause }
  }

  override def close(): Unit = if (!isClosed) {
    isClosed = true
    action.processor.allActionsCompleted()
    Uninterruptibly.within(CloseMs) { ms =>
      thread.join(math.max(1L, ms))
      !thread.isAlive
    }: Unit
    publish()
    progress.foreach(_.end(isDone = !context.isFailed() && !context.isInterrupted()))
  }

  private def run(): Unit = {
    try {
      async.open { () =>
        publish()
        async.taskUsage.tick()
        progress.foreach(_.report())
      }
      action.processor.runMailboxLoop()
    } catch { case error: Throwable => broken(async.named(error)) }
    try async.close()
    catch { case NonFatal(error) => log.warn("Could not close the calls of a keyed function", error) }
    finally action.processor.mailbox.close(): Unit
  }

  /** On the operator's thread, and on the task's when that has ended. */
  private def publish(): Unit = {
    async.countBreakers()
    published = KeyedCallMetrics.publish(task.metrics, async.metrics, published)
  }

  private def takeFrame(frame: IndexedSeq[FrameRow]): Unit = {
    rows = frame
    taken = 0
    ended = 0
    ready = if (functions == 0) frame.size else 0
    action.resume()
  }

  private def takeAmounts(amounts: Seq[AnyRef]): Unit = {
    amounts.foreach { one =>
      rows(ready).returned = one
      ready += 1
    }
    action.resume()
  }

  private def takeInput(): Unit = {
    while (!hasFailed && taken < ready && operator.tryProcessElement(rows(taken), AsyncOutput.NoTimestamp))
      taken += 1
    action.suspend()
  }

  override def emit(row: InternalRow, timestampMs: Long, results: JCollection[InternalRow]): Unit = {
    ended += 1
    if (ended == rows.size) {
      takeFrame(IndexedSeq.empty)
      worker.allEnded()
    }
  }

  override def emitOne(row: InternalRow, timestampMs: Long, result: InternalRow): Unit =
    emit(row, timestampMs, null)

  /** Tells the worker of failures: it makes the row, or the error. */
  private final class Failures(policy: RowFailurePolicy) extends FailurePolicy[InternalRow, InternalRow] {
    override def onFailure(call: FailedCall[InternalRow], cause: Throwable): JCollection[InternalRow] = {
      val (texts, endsTask) = policy.taken(call, cause)
      worker.failed(rowOf(call.input).id, call, texts, endsTask)
      if (endsTask) {
        hasFailed = true
        worker.close()
      }
      util.Collections.emptyList[InternalRow]
    }

    override def onRetry(row: InternalRow, attempt: Int, cause: Throwable): Unit =
      policy.onRetry(row, attempt, cause)
  }
}

private[pillarbox] object KeyedAttempts {
  private type Options = AsyncOptions[InternalRow, InternalRow]
  private val log = org.slf4j.LoggerFactory.getLogger(classOf[KeyedAttempts])
  private final val SettleMs = 100L
  private final val CloseMs = 4000L

  /** All rows of a frame may be taken in: they are there, and a key with many must not hold up others. */
  private final val MostWaiting = 1 << 30

  /** @param task without a function, which a task's own worker has */
  final case class Factory(task: AsyncIOTaskSpec) extends WorkerCalls.Factory {
    override def open(
        context: TaskContext,
        send: (Byte, ByteBuffer) => Unit,
        broken: Throwable => Unit
    ): WorkerCalls = {
      val own = Factory(task.copy(site = task.site.ofPart(context.partitionId())))
      new KeyedAttempts(own, context, send, broken)
    }
  }

  /** A row of a frame, with the number of its call. */
  private final class FrameRow(row: UnsafeRow, val id: Long) extends JoinedRow(row, InternalRow.empty) {

    /** The number of its key. */
    var key: Integer = _

    /** What functions in the worker have estimated for it, or the error. */
    var returned: AnyRef = _
  }

  private def rowOf(row: InternalRow): FrameRow = row.asInstanceOf[FrameRow]
}
