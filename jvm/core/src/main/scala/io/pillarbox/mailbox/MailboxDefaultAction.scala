package io.pillarbox.mailbox

/** The work of a task when no mail is due; for an operator in Spark: take the next input row. */
private[pillarbox] trait MailboxDefaultAction {

  /**
   * Does one small piece of work, on the mailbox thread. An exception ends the loop.
   *
   * @param controller ends the loop or suspends this action; valid during this call only
   */
  @throws[Exception]
  def runDefaultAction(controller: MailboxDefaultAction.Controller): Unit
}

private[pillarbox] object MailboxDefaultAction {

  /** Steers the loop from inside the default action. Mailbox thread only. */
  trait Controller {

    /** Ends the loop for good: there is nothing left to do. */
    def allActionsCompleted(): Unit

    /**
     * Stops running the default action until the suspension is resumed; counts as idle time.
     *
     * @throws IllegalStateException if the default action is suspended already
     */
    def suspendDefaultAction(): Suspension

    /** Does the same, but the time counts on `timer`. */
    def suspendDefaultAction(timer: PeriodTimer): Suspension
  }

  /** A suspended default action. */
  trait Suspension {

    /**
     * Lets the default action run again. Any thread, any number of times: only the first call has an effect,
     * and a suspension that is not the current one has none. Ignored once the mailbox is closed.
     */
    def resume(): Unit
  }
}
