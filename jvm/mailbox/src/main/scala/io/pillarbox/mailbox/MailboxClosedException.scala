package io.pillarbox.mailbox

/** A mailbox that is quiesced refuses new mail; one that is closed neither accepts nor hands out any. */
private[pillarbox] final class MailboxClosedException(
    val state: TaskMailbox.State,
    operation: String,
    required: String
) extends IllegalStateException(
      s"The mailbox is $state and does not $operation: this needs the state $required. " +
        "The task is ending; drop the action or send it earlier."
    )
