package io.pillarbox.spark.checkpoint

import java.util.concurrent.{Callable, ExecutionException, ExecutorService, Executors, TimeUnit}

import scala.jdk.CollectionConverters._

/** Runs reads or writes of a checkpoint, several at a time, since each waits for a remote file system. */
private[pillarbox] object InParallel {
  private final val Readers = 16

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

  /** Waits also if the task is killed, which deletes afterwards what the threads write to. */
  private def awaitEnd(threads: ExecutorService): Unit = {
    var isInterrupted = false
    while (!threads.isTerminated)
      try threads.awaitTermination(1, TimeUnit.MINUTES): Unit
      catch { case _: InterruptedException => isInterrupted = true }
    if (isInterrupted) Thread.currentThread.interrupt()
  }
}
