package io.pillarbox.mailbox

/**
 * The rank of a mail among other mail.
 *
 * @param urgent it runs before all ordinary mail that is not yet in a batch; for control mail only
 * @param deferrable it has the lowest priority from any sender, so that no operator's yield takes it
 */
private[pillarbox] final class MailOptions private (val urgent: Boolean, val deferrable: Boolean) {
  override def toString: String =
    if (urgent) "urgent" else if (deferrable) "deferrable" else "ordinary"
}

private[pillarbox] object MailOptions {
  val Default: MailOptions = new MailOptions(urgent = false, deferrable = false)
  val Urgent: MailOptions = new MailOptions(urgent = true, deferrable = false)
  val Deferrable: MailOptions = new MailOptions(urgent = false, deferrable = true)
}
