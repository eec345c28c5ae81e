package io.pillarbox.mailbox

import java.util.concurrent.{Future, RejectedExecutionException, ScheduledThreadPoolExecutor, TimeUnit}

/**
 * Processing time by the clock of the machine: the wall clock when the service was made, from there on the
 * monotonic one, so a clock that is set back neither delays nor repeats a timer. One wake-up at a time is
 * armed for a task, on a scheduler thread that all tasks of this JVM share.
 */
private[pillarbox] final class SystemProcessingTimeService(executor: MailboxExecutor)
    extends MailTimers(executor) {
  import SystemProcessingTimeService._

  private val originNanos = System.nanoTime()
  private val originMs = System.currentTimeMillis()
  @volatile private var armed: Future[_] = _
  private var armedForMs = Long.MaxValue

  override def nanoTime: Long = System.nanoTime()

  override def processingTimeAt(nanos: Long): Long =
    originMs + TimeUnit.NANOSECONDS.toMillis(nanos - originNanos)

  /**
   * A wake-up that is armed for an earlier time stays: it finds nothing due and arms the next. So a timer
   * that is set and cancelled again, as the deadline of most calls is, costs the scheduler nothing.
   */
  override private[mailbox] def wakeAt(timestampMs: Long): Unit = if (timestampMs < armedForMs) {
    disarm()
    armedForMs = timestampMs
    armed = Scheduler.schedule(wakeUp, delayNanos(timestampMs), TimeUnit.NANOSECONDS)
  }

  /** Counts to the first nanosecond of that millisecond, as a timer must not fire early. */
  private def delayNanos(timestampMs: Long): Long = {
    val sinceOriginMs = math.max(0L, timestampMs - originMs)
    if (sinceOriginMs > FarAwayMs) TimeUnit.MILLISECONDS.toNanos(FarAwayMs)
    else math.max(0L, originNanos + TimeUnit.MILLISECONDS.toNanos(sinceOriginMs) - System.nanoTime())
  }

  private val wakeUp: Runnable = () =>
    try wake()
    catch {
      // The task has ended; its timers end with it.
      case _: RejectedExecutionException => ()
    }

  override private[mailbox] def onWoken(): Unit = {
    armed = null
    armedForMs = Long.MaxValue
  }

  private def disarm(): Unit = {
    val wait = armed
    armed = null
    if (wait ne null) wait.cancel(false)
  }

  override def close(): Unit = {
    super.close()
    disarm()
  }
}

private[pillarbox] object SystemProcessingTimeService {

  /** A wake-up further away than a year is armed for a year, which keeps the arithmetic free of overflow. */
  private val FarAwayMs = TimeUnit.DAYS.toMillis(365)

  /** The one thread that keeps time in this JVM. It only sends mail, so it is never held up. */
  private[pillarbox] lazy val Scheduler: ScheduledThreadPoolExecutor = {
    val scheduler = new ScheduledThreadPoolExecutor(1, task => daemon(task))
    scheduler.setRemoveOnCancelPolicy(true)
    scheduler
  }

  private def daemon(task: Runnable): Thread = {
    val thread = new Thread(task, "pillarbox-timer")
    thread.setDaemon(true)
    thread
  }
}
