package io.pillarbox.spark.task

import java.util.concurrent.locks.ReentrantLock
import java.util.concurrent.{ConcurrentLinkedDeque, TimeUnit}

import io.pillarbox.mailbox._
import org.apache.spark.sql.pillarbox.TaskKills
import org.apache.spark.{TaskContext, TaskKilledException}

/**
 * The mailbox of an operator in a task, or of several that are chained, and the lock of the thread that may
 * use it.
 *
 * One thread at a time is inside a mailbox: the one that pulls the operator's rows. The next one takes the
 * mailbox over, as Spark lets another thread go on where one has stopped (`TRANSFORM`, `pipe`).
 *
 * A thread that is inside one mailbox also runs the mail of the others whose rows it pulled last, before each
 * step and while it sleeps. So an operator that waits still handles the answers, deadlines and retries of
 * those below and above it.
 *
 * At the end of the task, a thread that is inside closes the resources of [[closeAtEnd]]: the task's own,
 * unless another one does not leave in time; then that one, when it leaves. Nobody enters afterwards.
 *
 * @param endTimeoutMs the longest time that the end of the task waits for a thread that is inside
 */
private[pillarbox] final class OperatorMailbox private[task] (
    task: OperatorMailboxes,
    context: TaskContext,
    endTimeoutMs: Long
) {
  private val turn = new ReentrantLock
  private val resources = new ConcurrentLinkedDeque[MailboxResource]
  private var handOver = OperatorMailbox.NoHook
  private var isRegistered = false
  private var isClosed = false
  @volatile private var hasEnded = false

  /** The threads' group that runs the mail. Written inside. */
  @volatile private var servedBy: MailboxGroup = _

  val mailbox: TaskMailbox = new TaskMailbox(Thread.currentThread())

  /** The priority of the mailbox's next operator; a later one is downstream and has the higher priority. */
  def nextPriority(): Int = task.nextPriority()

  /**
   * Lets the calling thread in; waits while another one is inside. Each call needs a [[leave]].
   *
   * @throws TaskKilledException if the task has ended
   */
  def enter(): Unit = {
    turn.lock()
    if (turn.getHoldCount == 1)
      try begin()
      catch {
        case e: Throwable =>
          leave()
          throw e
      }
  }

  def leave(): Unit = {
    turn.unlock()
    // The thread that ended the task may have found the mailbox taken.
    if (hasEnded && !turn.isHeldByCurrentThread && turn.tryLock())
      try finish()
      finally turn.unlock()
  }

  private def begin(): Unit = {
    checkNotEnded()
    if (servedBy == null || !servedBy.isOfCurrentThread) {
      takeOver()
      servedBy = task.groupOfCurrentThread()
      servedBy.add(this)
    }
  }

  private def checkNotEnded(): Unit =
    if (hasEnded || isClosed) throw new TaskKilledException(OperatorMailbox.Ended)

  /** The hook does not run for the thread that has the mailbox: it may have given away what the hook takes. */
  private def takeOver(): Unit = if (!mailbox.isMailboxThread) {
    mailbox.takeOver()
    handOver.run()
  }

  /** Sets what runs, inside, whenever another thread takes over. Inside. */
  def onHandOver(hook: Runnable): Unit = handOver = hook

  /**
   * Has `resource` closed at the end of the task at the latest, those added last first. Inside.
   *
   * @throws TaskKilledException if the task has ended; the resource is closed all the same
   */
  def closeAtEnd(resource: MailboxResource): Unit = {
    resources.push(resource)
    if (!isRegistered) {
      // Not earlier, as what the input has opened for itself must be closed after these.
      isRegistered = true
      context.addTaskCompletionListener[Unit](_ => end())
      TaskKills.listen(context)(sendKill)
    }
    checkNotEnded()
  }

  /** True if there is mail that the next step would run. Inside. */
  def hasMail: Boolean = mailbox.hasMail || servedBy.hasMail(this)

  /** Runs a step of one of the mailbox's processors; sleeps if no mailbox of this thread has work. Inside. */
  @throws[InterruptedException]
  def step(processor: MailboxProcessor): Unit = if (!stepWithoutWaiting(processor)) servedBy.awaitMail()

  /** Like `step`, but never sleeps; false if there was nothing to do. Inside. */
  def stepWithoutWaiting(processor: MailboxProcessor): Boolean = {
    val ranOthers = servedBy.runMail(this)
    processor.runMailboxStep() || ranOthers
  }

  /** Ends the mailbox, and closes now what would be closed at the end of the task. Inside. */
  def finish(): Unit = if (!isClosed) {
    isClosed = true
    takeOver()
    servedBy = null
    handOver = OperatorMailbox.NoHook
    try closeResources()
    finally mailbox.close(): Unit
  }

  private def closeResources(): Unit = while (!resources.isEmpty)
    try resources.pop().close()
    catch {
      case first: Throwable =>
        try closeResources()
        catch { case further: Throwable => first.addSuppressed(further) }
        throw first
    }

  private[task] def isServedBy(group: MailboxGroup): Boolean = servedBy eq group

  /** Runs `action` inside. False if another thread is there or serves this mailbox by now. */
  private[task] def ifServedBy(group: MailboxGroup)(action: OperatorMailbox => Boolean): Boolean =
    (servedBy eq group) && turn.tryLock() && {
      try (servedBy eq group) && action(this)
      finally leave()
    }

  /** Ends the mailbox on the task's own thread; waits at most `endTimeoutMs` for another thread inside. */
  private def end(): Unit = {
    hasEnded = true
    if (!turn.tryLock()) {
      sendKill(OperatorMailbox.Ended)
      resources.forEach(_.abort())
      Uninterruptibly.within(endTimeoutMs)(ms => turn.tryLock(ms, TimeUnit.MILLISECONDS)): Unit
    }
    if (turn.isHeldByCurrentThread)
      try finish()
      finally turn.unlock()
  }

  /** Wakes the thread inside if it sleeps, so that a killed task ends even if Spark does not interrupt it. */
  private def sendKill(reason: String): Unit = mailbox.runExclusively { () =>
    if (mailbox.state.acceptsMail) mailbox.put(OperatorMailbox.killMail(reason))
  }
}

/** A resource that an operator holds until its rows are out or the task has ended. */
private[pillarbox] trait MailboxResource extends AutoCloseable {

  /** Releases it. Inside the mailbox, once. */
  override def close(): Unit

  /** Ends a wait, which no mail ends, of a thread that is inside when the task ends. Any thread. */
  def abort(): Unit = ()
}

private object OperatorMailbox {

  private final val Ended = "the task has ended"
  private val NoHook: Runnable = () => ()

  private def killMail(reason: String): Mail = new Mail(
    () => throw new TaskKilledException(reason),
    TaskMailbox.MaxPriority,
    "kill the task",
    isUrgent = true
  )
}
