package io.pillarbox.mailbox

import java.util.concurrent.atomic.AtomicBoolean

/**
 * The loop of a task: it runs the mail that is due, then the default action once, and so on.
 *
 * An exception in a mail or in the default action leaves the loop; it is never swallowed. Everything here is
 * for the mailbox thread, except `suspend`, `allActionsCompleted`, `reportThrowable` and making executors.
 *
 * Several processors may share one mailbox, one for each operator of a chain on the same thread: each has its
 * own default action and suspension, and whichever of them is being driven runs the mail of all.
 *
 * @param defaultAction the work when no mail is due
 * @param mailbox the source of the mail
 */
private[pillarbox] final class MailboxProcessor(
    defaultAction: MailboxDefaultAction,
    val mailbox: TaskMailbox
) {

  private var loopRunning = true
  private var loopSuspended = false
  private var suspension: Suspension = _

  /** True if the loop is to end or the default action is suspended: one field to read in each turn. */
  private var halted = false

  /** Makes a processor with a new mailbox, bound to the calling thread. */
  def this(defaultAction: MailboxDefaultAction) =
    this(defaultAction, new TaskMailbox(Thread.currentThread()))

  def mailboxExecutor(priority: Int): MailboxExecutor = new MailboxExecutor(mailbox, priority)

  def isDefaultActionAvailable: Boolean = suspension eq null

  /**
   * Runs until the loop is suspended or all actions are completed. While the default action is suspended it
   * sleeps on the mailbox. After `allActionsCompleted` it returns at once.
   */
  @throws[Exception]
  def runMailboxLoop(): Unit = {
    enterLoop()
    val mail = mailbox
    val action = defaultAction
    while (!halted || awaitAction())
      if (!mail.createBatchHere() || canActAfterBatch()) action.runDefaultAction(this)
  }

  private def canActAfterBatch(): Boolean = {
    runBatch()
    !halted
  }

  /** Runs mail, asleep between, until the default action is available; false if the loop ends before that. */
  private def awaitAction(): Boolean = {
    while ((suspension ne null) && !loopSuspended) runWhenMailComes()
    !loopSuspended
  }

  /**
   * Does one step without blocking: runs the mail that is due, as one batch, then the default action once if
   * it is available.
   *
   * @return whether there was any work
   */
  @throws[Exception]
  def runMailboxStep(): Boolean = {
    enterLoop()
    val ranMail = runDueMail()
    if (!halted) {
      defaultAction.runDefaultAction(this)
      true
    } else ranMail
  }

  private def enterLoop(): Unit = {
    if (!mailbox.isMailboxThread)
      throw new IllegalStateException(
        "The mailbox loop runs on its mailbox thread only, but this is thread " +
          s"'${Thread.currentThread().getName}'."
      )
    suspendLoop(!loopRunning)
  }

  private def suspendLoop(suspended: Boolean): Unit = {
    loopSuspended = suspended
    halted = suspended || (suspension ne null)
  }

  private def suspendAction(by: Suspension): Unit = {
    suspension = by
    halted = loopSuspended || (by ne null)
  }

  private def runDueMail(): Boolean = {
    val due = mailbox.createBatch()
    if (due) runBatch()
    due
  }

  private def runBatch(): Unit = {
    var mail = nextOfBatch()
    while (mail ne null) {
      mailbox.run(mail)
      mail = nextOfBatch()
    }
  }

  private def nextOfBatch(): Mail = if (loopSuspended) null else mailbox.tryTakeFromBatch()

  private def runWhenMailComes(): Unit = mailbox.run(mailbox.take(TaskMailbox.MinPriority))

  /**
   * Ends the current `runMailboxLoop`; a later call goes on, with the mail that is left. Takes effect after
   * the running mail when called by the mailbox thread, otherwise after the running batch. Any thread.
   */
  def suspend(): Unit = control(() => suspendLoop(true), "suspend the loop")

  /** Ends the loop for good. Any thread; dropped unless the mailbox is OPEN. */
  def allActionsCompleted(): Unit = control(() => endLoop(), "all actions completed")

  private def endLoop(): Unit = {
    loopRunning = false
    suspendLoop(true)
  }

  /** Checks the state and puts in one step, so that a concurrent close can't turn this into an exception. */
  private def control(change: ThrowingRunnable, description: String): Unit =
    if (mailbox.isMailboxThread) change.run()
    else
      mailbox.runExclusively { () =>
        if (mailbox.state.acceptsMail) sendControlMail(change, description)
      }

  private def sendControlMail(command: ThrowingRunnable, description: String): Unit = mailbox.put(
    new Mail(command, TaskMailbox.MaxPriority, description, isUrgent = true)
  )

  /**
   * Fails the loop with `error`, which keeps its cause and suppressed exceptions. Any thread.
   *
   * @throws MailboxClosedException if the mailbox no longer accepts mail
   */
  def reportThrowable(error: Throwable): Unit =
    sendControlMail(() => throw error, s"report ${error.getClass.getName}")

  /**
   * Stops running the default action until the suspension is resumed.
   *
   * @throws IllegalStateException if the default action is suspended already
   */
  def suspendDefaultAction(): Suspension = {
    if (!mailbox.isMailboxThread)
      throw new IllegalStateException("The default action can only be suspended by the mailbox thread.")
    if (suspension ne null)
      throw new IllegalStateException(
        "The default action is suspended already: resume it before suspending again."
      )
    suspendAction(new Suspension)
    suspension
  }

  final class Suspension private[MailboxProcessor] {
    private val asked = new AtomicBoolean

    /**
     * Lets the default action run again. Any thread, any number of times: only the first call has an effect,
     * and a suspension that is not the current one has none. Ignored once the mailbox is closed.
     */
    def resume(): Unit =
      if (mailbox.isMailboxThread) lift()
      else if (asked.compareAndSet(false, true)) control(() => lift(), "resume the default action")

    private def lift(): Unit = if (suspension eq this) suspendAction(null)
  }
}

/** The work of a task when no mail is due; for an operator in Spark: take the next input row. */
private[pillarbox] trait MailboxDefaultAction {

  /**
   * Does one small piece of work, on the mailbox thread. An exception ends the loop.
   *
   * @param processor runs it: to end the loop or suspend this action
   */
  @throws[Exception]
  def runDefaultAction(processor: MailboxProcessor): Unit
}
