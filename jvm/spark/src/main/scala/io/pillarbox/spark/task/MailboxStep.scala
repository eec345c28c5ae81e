package io.pillarbox.spark.task

import io.pillarbox.mailbox._

/**
 * The default action of an operator, on the mailbox of an operator or of its own thread. Mailbox thread only.
 *
 * @param action one small piece of work
 */
private[pillarbox] final class MailboxStep(mailbox: TaskMailbox)(action: () => Unit) {
  val processor = new MailboxProcessor(_ => action(), mailbox)
  private var suspension: processor.Suspension = _

  /** Stops the action until [[resume]], as there is nothing to do, or no room. From within the action. */
  def suspend(): Unit = suspension = processor.suspendDefaultAction()

  def resume(): Unit = if (suspension != null) suspension.resume()
}
