package io.pillarbox.spark.async

import java.io.IOException
import java.nio.ByteBuffer
import java.util.concurrent.{Executor, LinkedBlockingQueue, ThreadPoolExecutor, TimeUnit}

import scala.collection.mutable

import io.pillarbox.spark.task.Uninterruptibly
import io.pillarbox.spark.worker.{Frame, WorkerCalls}

/**
 * The thread on which a task's calls get their permits, and by which the worker hears of them: so neither a
 * gate's thread nor the task's waits for the worker to read. It starts with the first call.
 *
 * @param send sends a frame to the worker; may block
 * @param broken takes an error of what is run here
 */
private[async] final class PermitLine(
    name: String,
    send: (Byte, ByteBuffer) => Unit,
    broken: Throwable => Unit
) extends Executor {
  private val queue = new LinkedBlockingQueue[Runnable]
  private val thread = new ThreadPoolExecutor(1, 1, 0L, TimeUnit.MILLISECONDS, queue, newThread(_))
  private val answers = mutable.ArrayBuffer.empty[ByteBuffer]

  private def newThread(work: Runnable): Thread = {
    val made = new Thread(work, s"pillarbox permits $name")
    made.setDaemon(true)
    made
  }

  /** @throws java.util.concurrent.RejectedExecutionException once it is closed */
  override def execute(work: Runnable): Unit = thread.execute(() => run(work))

  private def run(work: Runnable): Unit =
    try {
      work.run()
      // Those of one moment are one frame.
      if (queue.isEmpty || answers.size >= PermitLine.MostAnswers) flush()
    } catch { case error: Throwable => broken(error) }

  /** Sends this, with others. On this thread. */
  def answer(content: ByteBuffer): Unit = answers += content.flip()

  private def flush(): Unit = if (answers.nonEmpty) {
    val frame = Frame.buffer(answers.iterator.map(_.remaining).sum)
    answers.foreach(frame.put)
    answers.clear()
    try send(WorkerCalls.Answers, frame.flip())
    catch { case _: IOException => } // The task's thread finds out why.
  }

  /** Runs `last` and ends the thread. The worker must be alive and reading, or be gone. */
  def close(last: Runnable): Unit = {
    thread.execute(last)
    thread.shutdown()
    Uninterruptibly.within(PermitLine.CloseMs)(ms => thread.awaitTermination(ms, TimeUnit.MILLISECONDS)): Unit
  }
}

private object PermitLine {
  private final val MostAnswers = 1024
  private final val CloseMs = 4000L
}
