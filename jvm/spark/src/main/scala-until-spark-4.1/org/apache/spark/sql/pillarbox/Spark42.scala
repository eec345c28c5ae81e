package org.apache.spark.sql.pillarbox

import java.util.concurrent.{ScheduledFuture, ScheduledThreadPoolExecutor, TimeUnit}

import scala.annotation.unused

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId

/** The classes and methods that came or changed with Spark 4.2, for older ones. */
object Spark42 {
  type OffsetMetadata = Spark41.OffsetSeqMetadata

  def toUnload(response: Seq[StateStoreProviderId]): Seq[StateStoreProviderId] = response

  /** The period in which a task is asked if it was killed. */
  private final val PeriodMs = 50L

  private final val IdleMs = 1000L

  /** One thread, which ends when no task has run for a while. */
  private lazy val watch = {
    val executor = new ScheduledThreadPoolExecutor(
      1,
      (body: Runnable) => {
        val thread = new Thread(body, "pillarbox kill watch")
        thread.setDaemon(true)
        thread
      }
    )
    executor.setRemoveOnCancelPolicy(true)
    executor.setKeepAliveTime(IdleMs, TimeUnit.MILLISECONDS)
    executor.allowCoreThreadTimeOut(true)
    executor
  }

  /** Calls `listener` once, with the reason, within 50 ms of Spark's killing the task, on its own thread. */
  def onKill(context: TaskContext)(listener: String => Unit): Unit = {
    val asking: ScheduledFuture[_] =
      watch.scheduleWithFixedDelay(new KillWatch(context, listener), 0, PeriodMs, TimeUnit.MILLISECONDS)
    context.addTaskCompletionListener[Unit](_ => asking.cancel(false): Unit)
    ()
  }

  private final class KillWatch(context: TaskContext, listener: String => Unit) extends Runnable {
    private var isTold = false

    override def run(): Unit = context.getKillReason().filterNot(_ => isTold).foreach { reason =>
      isTold = true
      listener(reason)
    }
  }

  /** A task's context has no methods of Spark 4.2 to delegate. */
  abstract class TaskContextOf(@unused task: TaskContext) extends TaskContext
}
