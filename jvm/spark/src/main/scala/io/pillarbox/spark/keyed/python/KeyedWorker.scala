package io.pillarbox.spark.keyed.python

import java.nio.ByteBuffer
import java.util.concurrent.RejectedExecutionException

import scala.util.control.NonFatal

import io.pillarbox.spark.keyed.KeyedMetrics
import io.pillarbox.spark.worker._
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.pillarbox.{TaskKills, UserFunction}

/**
 * A task's session with its worker: one frame goes out, its update comes back, queries about large state
 * between them.
 *
 * The calling thread, the task's own, waits: while the worker computes, the JVM has nothing to do for the
 * task, and with as many tasks as cores another task has the core.
 *
 * Calls that the worker makes meanwhile are told to [[WorkerCalls]], which decides on them in another thread.
 *
 * @param calls makes what such calls need; None for a function that makes none
 * @param count adds to one of the metrics of [[KeyedMetrics]]
 */
private final class KeyedWorker(
    function: UserFunction,
    context: TaskContext,
    calls: Option[WorkerCalls.Factory],
    count: (String, Long) => Unit
) extends AutoCloseable {
  private var worker: WorkerSession = _
  private var isUsable = false
  private val writing = new Object
  private var made: Option[WorkerCalls] = None

  /** The reason why the worker was ended that it did not give itself; null for none. */
  @volatile private var broken: Throwable = _

  /** True once the process was ended from here. */
  @volatile private var isAborted = false

  /** Time below a millisecond, which is not counted yet. */
  private var uncountedNanos = 0L

  /**
   * Starts or takes over a worker and sends the function.
   *
   * @return the worker's READY, as JSON
   */
  def open(initJson: String, rowSchema: Schema, resultSchema: Schema): String = {
    val leasing = System.nanoTime
    worker = new WorkerSession(function, context)
    val starting = System.nanoTime
    // The thread waits for the worker and sees no mail, so a kill ends the worker.
    TaskKills.listen(context)(_ => abort())
    val ready = worker.start(initJson, rowSchema, resultSchema).readText()
    count(KeyedMetrics.PythonStartMs, (starting - leasing) / KeyedWorker.NanosPerMs)
    count(KeyedMetrics.PythonOpenMs, (System.nanoTime - starting) / KeyedWorker.NanosPerMs)
    made = calls.map(_.open(context, (kind, body) => send(kind, body), end))
    isUsable = true
    ready
  }

  private def end(cause: Throwable): Unit = {
    broken = cause
    abort()
  }

  private def orDied[T](exchange: => T): T =
    try worker.orDied(exchange)
    catch { case _: PythonFailure | _: RejectedExecutionException if broken != null => throw broken }

  /** Takes note of a row of the next frame. */
  def add(row: InternalRow): Unit = if (made.isDefined) made.get.add(row)

  def sendSchemas(schemas: Seq[Schema]): Unit = orDied {
    val count = Frame.buffer(4).putInt(schemas.size).flip()
    val blobs = SessionStart.blobs(schemas.map(SessionStart.schemaMessage))
    send(KeyedWorker.Schemas, count, blobs)
  }

  /**
   * Sends a frame and waits for its update.
   *
   * @param keyOf returns the number of the key of a row that was added, by its place
   * @param onQuery returns the answer for a state, key index, op and blob
   * @param onPart takes the body of a part of the update
   */
  def exchange(
      parts: Seq[ByteBuffer],
      keyOf: Int => Int,
      onQuery: (Int, Int, Int, ByteBuffer) => Answer,
      onPart: ByteBuffer => Unit
  ): Frame =
    orDied {
      isUsable = false
      val start = System.nanoTime
      write(KeyedWorker.KeyedFrame, parts)
      made.foreach(_.begin(keyOf))
      var frame = next()
      while (frame.kind != KeyedWorker.Update) {
        if (frame.kind == KeyedWorker.Query) answer(frame.body, onQuery) else onPart(frame.body)
        frame = next()
      }
      countTime(System.nanoTime - start)
      isUsable = true
      frame
    }

  /** Sends what precedes the next frame or answer: rows (0), or cells of a state (from 1). */
  def sendPart(what: Int, batch: Seq[ByteBuffer]): Unit = orDied {
    write(Frame.Part, Frame.buffer(4).putInt(what).flip() +: batch)
  }

  private def write(kind: Byte, parts: Seq[ByteBuffer]): Unit = {
    count(KeyedMetrics.PythonBytesSent, parts.map(_.remaining.toLong).sum)
    send(kind, parts: _*)
  }

  /** Frames of two threads don't mix. */
  private def send(kind: Byte, parts: ByteBuffer*): Unit =
    writing.synchronized(Frame.write(worker.channel, kind, parts: _*))

  private def next(): Frame = {
    val frame = receive(KeyedWorker.Update, KeyedWorker.Query, Frame.Part)
    count(KeyedMetrics.PythonBytesReceived, frame.body.remaining.toLong)
    frame
  }

  /** Returns the next frame that tells of no calls. */
  private def receive(kinds: Byte*): Frame = {
    val wanted = kinds ++ WorkerCalls.Kinds
    var frame = worker.next(wanted: _*)
    while (!kinds.contains(frame.kind)) {
      made.foreach(_.take(frame))
      frame = worker.next(wanted: _*)
    }
    frame
  }

  private def countTime(nanos: Long): Unit = {
    uncountedNanos += nanos
    count(KeyedMetrics.PythonRunMs, uncountedNanos / KeyedWorker.NanosPerMs)
    uncountedNanos %= KeyedWorker.NanosPerMs
  }

  private def answer(query: ByteBuffer, onQuery: (Int, Int, Int, ByteBuffer) => Answer): Unit = {
    val frameId = query.getLong
    val (state, keyIndex, op) = (query.getInt, query.getInt, query.get().toInt)
    query.getInt // the length of what is left, the blob
    val Answer(entries, next) = onQuery(state, keyIndex, op, query)
    val head = Frame.buffer(16 + next.length).putLong(frameId).putInt(next.length).put(next)
    write(KeyedWorker.Answer, head.putInt(entries.map(_.remaining).sum).flip() +: entries)
  }

  /** Ends the process. Any thread. */
  def abort(): Unit = {
    isAborted = true
    if (worker != null) worker.destroy()
  }

  /**
   * Gives the worker back if it is between frames, else ends it. Before the commit.
   *
   * @throws PythonTaskFailure if the accumulator updates of a task that has not failed are lost
   */
  override def close(): Unit = if (worker != null) {
    val isWhole = isUsable && !context.isInterrupted()
    if (!isWhole) abort()
    try {
      if (isWhole && !context.isFailed()) made.foreach(_.settle())
    } finally end(isWhole)
  }

  private def end(isWhole: Boolean): Unit =
    try if (isWhole && isLastFrameClean) worker.release()
    catch { case NonFatal(_) if isGivenUp => }
    finally
      try abort()
      finally made.foreach(_.close())

  private def isLastFrameClean: Boolean = worker.ended(orDied {
    send(Frame.End)
    receive(Frame.End)
  })

  /** True if nobody misses what the last frame brings. */
  private def isGivenUp: Boolean =
    context.isFailed() || context.isInterrupted() || (isAborted && broken == null)
}

private object KeyedWorker {
  final val Schemas: Byte = 'S'
  final val KeyedFrame: Byte = 'K'
  final val Query: Byte = 'Q'
  final val Answer: Byte = 'A'
  final val Update: Byte = 'U'

  private final val NanosPerMs = 1000000L
}
