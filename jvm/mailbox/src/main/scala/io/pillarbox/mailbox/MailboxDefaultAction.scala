package io.pillarbox.mailbox

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
