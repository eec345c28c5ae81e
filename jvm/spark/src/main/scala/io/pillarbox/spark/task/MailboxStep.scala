package io.pillarbox.spark.task

import io.pillarbox.mailbox._

/**
 * The default action of an operator, on the mailbox of a lane or of its own thread. Mailbox thread only.
 *
 * @param action one small piece of work
 */
private[pillarbox] final class MailboxStep(mailbox: TaskMailbox)(action: () => Unit) {
  private var controller: MailboxDefaultAction.Controller = _
  private var suspension: MailboxDefaultAction.Suspension = _
  val processor = new MailboxProcessor(act(_), mailbox)

  private def act(current: MailboxDefaultAction.Controller): Unit = {
    controller = current
    action()
  }

  /** Stops the action until [[resume]], as there is nothing to do. From within the action. */
  def suspend(): Unit = suspension = controller.suspendDefaultAction()

  /** Like `suspend`, as there is no room for a result or row. */
  def suspendForRoom(): Unit =
    suspension = controller.suspendDefaultAction(mailbox.metrics.backPressuredTime)

  def resume(): Unit = if (suspension != null) suspension.resume()
}
