package io.pillarbox.spark.worker

import java.io.IOException
import java.nio.file.Paths

import io.pillarbox.spark.base.FailureReport
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.TaskContext
import org.apache.spark.sql.pillarbox.{LeasedWorker, PythonWorkers, UserFunction}

/**
 * The use of a Python worker by one task: it is leased, gets the function, and is in the end given back or
 * killed, once.
 *
 * [[destroy]] and [[died]] are for any thread, the rest for the task's.
 */
private[pillarbox] final class WorkerSession(function: UserFunction, context: TaskContext) {
  private val worker: LeasedWorker = PythonWorkers.lease(function, WorkerSession.sources, context)

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

  /** Returns the next frame, which must be of one of these kinds. Throws the failure of a FATAL frame. */
  def next(kinds: Byte*): Frame = {
    val frame = frames.read()
    if (frame.kind == Frame.Fatal) throw PythonWorkerException.of(frame)
    if (!kinds.contains(frame.kind))
      throw new IllegalStateException(s"The Python worker sent a frame of type ${frame.kind} out of turn")
    frame
  }

  /**
   * Reads the worker's END and adds the task's updates to accumulators. True if the worker may be used again.
   *
   * @throws PythonWorkerException if the updates could not be sent
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

  /** Runs `exchange`. A connection that breaks means that the worker has died, unless the task is killed. */
  def orDied[T](exchange: => T): T =
    try exchange
    catch { case _: IOException if !context.isInterrupted() => throw died() }

  /** Returns the error of a worker that has ended without a message. */
  def died(): PythonWorkerDiedException =
    new PythonWorkerDiedException(worker.pid, worker.memoryLimitMib, WorkerStderr.tail(worker.pid))

  /** Gives the worker back for other tasks. Does nothing once it has ended. */
  def release(): Unit = worker.release()

  /** Ends the process. Idempotent. */
  def destroy(): Unit = if (worker.destroy()) WorkerStderr.remove(worker.pid)
}

private object WorkerSession {

  /** The place of this library's Python sources: the jar itself, or a class folder in tests. */
  private lazy val sources =
    Paths.get(getClass.getProtectionDomain.getCodeSource.getLocation.toURI).toString
}
