package io.pillarbox.spark.async.python

import java.io.IOException
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.{CountDownLatch, TimeUnit}
import java.util.{List => JList}

import io.pillarbox.metered.journal.{CallKey, CallTicket}
import io.pillarbox.spark.task.Uninterruptibly
import io.pillarbox.spark.worker.{Frame, FrameSize, PythonWorkerException, WorkerSession}
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.pillarbox.{TaskKills, UserFunction}

/**
 * The settings that a task sends its worker at the start.
 *
 * @param initJson the operator's options and the task's identity
 * @param inputView makes a function that picks the columns to send from a row; used by one thread
 * @param callNames makes a function that names the call of a row with its number; used by one thread
 * @param decoder makes what reads answers; used by one thread
 * @param maxRowsPerFrame rows in one frame at most
 */
private[pillarbox] final case class ChannelSettings(
    name: String,
    function: UserFunction,
    initJson: String,
    inputSchema: Schema,
    inputView: () => InternalRow => InternalRow,
    callNames: () => (InternalRow, Long) => CallKey,
    resultArrowSchema: Schema,
    decoder: () => ResultDecoder,
    maxRowsPerFrame: Int
)

/**
 * The connection of a task to its Python worker. Calls go out and answers come in at the same time.
 *
 * `call`, `callGroup`, `collect`, `cancel` and `giveUp` may be used from any thread and never block. Answers reach the
 * function on the reader thread. `close` gives the worker back if it stopped cleanly, else it ends the
 * process; after it, no thread and no off-heap memory of this channel is left.
 */
private[pillarbox] final class PythonChannel(
    settings: ChannelSettings,
    context: TaskContext,
    function: PythonAsyncFunction
) extends CallChannel {
  private var worker: WorkerSession = _
  private var threads: Seq[Thread] = Nil
  private val outbox = new CallOutbox
  private val ended = new CountDownLatch(1)
  private val failed = new AtomicBoolean
  private val closing = new AtomicBoolean
  private val closed = new AtomicBoolean
  @volatile private var opening = false
  @volatile private var clean = false

  /** The reason why the accumulator updates of the task did not arrive, or null. */
  @volatile private var refused: PythonWorkerException = _

  /**
   * Starts or takes over a worker, sends the function, and waits until its resource is open.
   *
   * @throws PythonWorkerException
   *   if the function does not unpickle, its resource does not open, or the Python versions differ
   */
  override def open(): Unit = {
    val leased = new WorkerSession(settings.function, context)
    worker = leased
    opening = true
    // This thread now waits for the worker and sees no mail, so a kill ends the worker.
    TaskKills.listen(context)(_ => if (opening) abort())
    try leased.start(settings.initJson, settings.inputSchema, settings.resultArrowSchema)
    finally opening = false
    start(leased)
  }

  override def call(call: PythonCall): Unit = outbox.put(Outgoing.Call(call))

  override def callGroup(calls: JList[PythonCall]): Unit = outbox.put(Outgoing.Group(calls))

  override def collect(calls: JList[PythonCall], tickets: JList[CallTicket]): Unit =
    outbox.put(Outgoing.Collect(calls, tickets))

  override def cancel(elementId: Long, attempt: Int): Unit =
    outbox.put(Outgoing.Cancel(PythonCall(elementId, attempt, null)))

  override def giveUp(elementId: Long): Unit = outbox.put(Outgoing.GiveUp(elementId))

  /**
   * Ends the task's session with the worker. Waits at most [[PythonChannel.CloseTimeoutMs]]. Idempotent.
   *
   * @throws PythonWorkerException if the accumulator updates of a task that succeeded are lost
   */
  override def close(): Unit =
    if (closed.compareAndSet(false, true) && worker != null) {
      closing.set(true)
      outbox.put(Outgoing.End)
      val inTime = threads.nonEmpty && !failed.get && awaitEnd()
      outbox.close()
      if (inTime && clean) worker.release() else worker.destroy()
      joinThreads()
      if (refused != null && !context.isFailed()) throw refused
    }

  /** Ends the process at once, as a killed task does while `open` blocks. Any thread. */
  override def abort(): Unit = {
    closing.set(true)
    if (worker != null) worker.destroy()
  }

  /** Waits until the worker has cancelled the calls and cleaned up; false if it takes too long. */
  private def awaitEnd(): Boolean = Uninterruptibly.within(PythonChannel.CloseTimeoutMs) { ms =>
    ended.await(ms, TimeUnit.MILLISECONDS)
  }

  /** The threads end by themselves now. */
  private def joinThreads(): Unit = threads.foreach { thread =>
    Uninterruptibly.within(PythonChannel.CloseTimeoutMs) { ms =>
      thread.join(math.max(1L, ms))
      !thread.isAlive
    }
  }

  private def start(worker: WorkerSession): Unit = {
    val frameSize = FrameSize.of(context)
    val label = s"${settings.name} task ${context.taskAttemptId()}"
    val writer = new ChannelWriter(
      s"pillarbox writer $label",
      worker.channel,
      outbox,
      () => new CallEncoder(settings.inputSchema, settings.inputView(), settings.callNames(), frameSize),
      settings.maxRowsPerFrame,
      (call, bytes) =>
        function.onFailure(call.elementId, call.attempt, PythonCallException.tooLarge(bytes, frameSize)),
      fail
    )
    val reader = new ChannelReader(
      s"pillarbox reader $label",
      worker.frames,
      settings.decoder,
      function,
      onEnd,
      fail
    )
    threads = Seq(writer, reader)
    threads.foreach(_.start())
  }

  private def onEnd(frame: Frame): Unit =
    try clean = worker.ended(frame)
    catch { case refusal: PythonWorkerException => refused = refusal }
    finally ended.countDown()

  private def fail(cause: Throwable): Unit =
    if (failed.compareAndSet(false, true)) {
      ended.countDown()
      outbox.close()
      if (!closing.get) function.onFatal(if (cause.isInstanceOf[IOException]) worker.died() else cause)
    }
}

private[pillarbox] object PythonChannel {

  /** The ms that a closing task waits for its worker to cancel the rest. The worker itself gives up first. */
  val CloseTimeoutMs = 4000L
}
