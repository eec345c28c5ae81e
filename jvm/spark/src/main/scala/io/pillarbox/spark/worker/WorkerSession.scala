package io.pillarbox.spark.worker

import java.io.IOException
import java.util.concurrent.atomic.AtomicBoolean

import io.pillarbox.spark.base.FailureReport
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.TaskContext
import org.apache.spark.sql.pillarbox.{LeasedWorker, PythonWorkers, UserFunction}

/**
 * A task's hold on its Python worker: leased, told the function, and in the end given back or killed, once.
 *
 * [[destroy]] and [[died]] are for any thread, the rest for the task's.
 */
private[pillarbox] final class WorkerSession(function: UserFunction, context: TaskContext) {
  private val worker: LeasedWorker = PythonWorkers.lease(function, PythonSources.path, context)
  private val ended = new AtomicBoolean

  def channel: java.nio.channels.SocketChannel = worker.channel

  val frames: FrameReader = new FrameReader(worker.channel)

  /**
   * Sends the function and waits for the worker's READY.
   *
   * @throws PythonWorkerException
   *   if the function does not unpickle, can't be opened, or the Python versions differ
   */
  def start(initJson: String, rowSchema: Schema, resultSchema: Schema): Frame = orDied {
    try SessionStart.send(worker, function, initJson, rowSchema, resultSchema)
    catch {
      // A worker that refuses the task says why and hangs up, perhaps before it has read all.
      case broken: IOException =>
        next(Frame.Ready)
        throw broken
    }
    next(Frame.Ready)
  }

  /** The next frame, of one of these kinds; what the worker says as its last words is thrown. */
  def next(kinds: Byte*): Frame = {
    val frame = frames.read()
    if (frame.kind == Frame.Fatal) throw PythonWorkerException.of(frame)
    if (!kinds.contains(frame.kind))
      throw new IllegalStateException(s"The Python worker sent a frame of type ${frame.kind} out of turn")
    frame
  }

  /**
   * Reads the worker's END: whether it may be used again. Takes what the task added to accumulators.
   *
   * @throws PythonWorkerException
   *   if that could not be sent
   */
  def ended(end: Frame): Boolean = {
    val clean = end.body.get() == 1
    val updates = Seq.fill(end.body.getInt)(end.readBytes())
    val refusal = end.readText()
    val name = "ACCUMULATOR_NOT_SENT"
    if (refusal.nonEmpty)
      throw new PythonWorkerException(FailureReport.titled(name, refusal.stripPrefix(s"[$name] "), ""))
    updates.foreach(function.accumulate)
    clean && !frames.hasUnread
  }

  /**
   * Runs `exchange`; a connection that breaks, but not because the task is killed, is the end of the worker.
   */
  def orDied[T](exchange: => T): T =
    try exchange
    catch { case _: IOException if !context.isInterrupted() => throw died() }

  /** What is said of a worker that has ended without a word. */
  def died(): PythonWorkerDiedException =
    new PythonWorkerDiedException(worker.pid, worker.memoryLimitMib, WorkerStderr.tail(worker.pid))

  /** Gives the worker back for other tasks. No-op once it has ended. */
  def release(): Unit = if (ended.compareAndSet(false, true)) worker.release()

  /** Ends the process. Idempotent. */
  def destroy(): Unit = if (ended.compareAndSet(false, true)) {
    worker.destroy()
    WorkerStderr.remove(worker.pid)
  }
}
