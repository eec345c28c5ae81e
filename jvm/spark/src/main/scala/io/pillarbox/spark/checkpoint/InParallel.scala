package io.pillarbox.spark.checkpoint

import java.util.concurrent.{Callable, ExecutionException, ExecutorService, Executors, TimeUnit}

import scala.jdk.CollectionConverters._

/** Runs reads or writes of a checkpoint, several at a time, since each waits for a remote file system. */
private[pillarbox] object InParallel {
  private final val Readers = 16
  private val PatienceNanos = TimeUnit.SECONDS.toNanos(30)

  /** Returns the results in the order of `reads`; throws what the first of them throws. */
  def apply[A](reads: Seq[() => A]): IndexedSeq[A] = if (reads.isEmpty) IndexedSeq.empty
  else {
    val threads = Executors.newFixedThreadPool(math.min(Readers, reads.size))
    try
      threads
        .invokeAll(reads.map(read => (() => read()): Callable[A]).asJava)
        .asScala
        .iterator
        .map(_.get())
        .toIndexedSeq
    catch { case failed: ExecutionException => throw failed.getCause }
    finally {
      threads.shutdownNow()
      awaitEnd(threads)
    }
  }

  /**
   * Waits for threads that were interrupted, also if the task is killed, which deletes afterwards what they
   * write to; but not for a file system that does not come back.
   */
  private def awaitEnd(threads: ExecutorService): Unit = {
    val deadline = System.nanoTime + PatienceNanos
    var isInterrupted = false
    while (!threads.isTerminated && System.nanoTime < deadline)
      try threads.awaitTermination(deadline - System.nanoTime, TimeUnit.NANOSECONDS): Unit
      catch { case _: InterruptedException => isInterrupted = true }
    if (isInterrupted) Thread.currentThread.interrupt()
  }
}
