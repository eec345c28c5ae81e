package io.pillarbox.mailbox

import com.codahale.metrics.{Histogram, UniformReservoir}

/** The measurements of a mailbox. The mailbox thread writes; any thread reads recent values. */
private[pillarbox] final class MailboxMetrics {
  private var mails = 0L

  /** Nanoseconds from put to run, of a sample of the mail. */
  val mailboxLatency: Histogram = new Histogram(new UniformReservoir)

  private[mailbox] def countMail(): Long = {
    mails += 1
    mails
  }
}
