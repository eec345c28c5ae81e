package io.pillarbox.spark.checkpoint

import java.util.concurrent.{Callable, ExecutionException, Executors}

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
    finally threads.shutdownNow(): Unit
  }
}
