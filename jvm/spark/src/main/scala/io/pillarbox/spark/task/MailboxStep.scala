package io.pillarbox.spark.task

import io.pillarbox.mailbox._

/**
 * What an operator does on a mailbox while no mail is due: one default action, on the mailbox of a lane or on
 * that of a thread of its own. Mailbox thread only.
 *
 * @param action
 *   one small piece of work
 */
private[pillarbox] final class MailboxStep(mailbox: TaskMailbox)(action: () => Unit) {
  private var controller: MailboxDefaultAction.Controller = _
  private var suspension: MailboxDefaultAction.Suspension = _
  val processor = new MailboxProcessor(act(_), mailbox)

  private def act(current: MailboxDefaultAction.Controller): Unit = {
    controller = current
    action()
  }

  /** From within the action: it is not run until [[resume]], as there is nothing to do. */
  def suspend(): Unit = suspension = controller.suspendDefaultAction()

  /** As `suspend`, as there is no room for what is to be done. */
  def suspendForRoom(): Unit =
    suspension = controller.suspendDefaultAction(mailbox.metrics.backPressuredTime)

  def resume(): Unit = if (suspension != null) suspension.resume()
}
