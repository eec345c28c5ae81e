package io.pillarbox.metered.journal

import java.util.concurrent.{CompletableFuture, Executor, Executors, TimeUnit}

/**
 * The threads on which journals are read and written in the background. Functions of users may fill the
 * JVM's common pool with calls that block. A thread that has had nothing to do for a minute ends.
 */
private[journal] object JournalThreads extends Executor {
  private val pool = Executors.newCachedThreadPool { task =>
    val thread = new Thread(task, "pillarbox-journal")
    thread.setDaemon(true)
    thread
  }

  override def execute(body: Runnable): Unit = pool.execute(body)

  def after(nanos: Long)(body: Runnable): Unit =
    CompletableFuture.delayedExecutor(nanos, TimeUnit.NANOSECONDS, pool).execute(body)
}
