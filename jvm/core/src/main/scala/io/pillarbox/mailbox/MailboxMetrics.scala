package io.pillarbox.mailbox

import com.codahale.metrics.{Histogram, UniformReservoir}

/** The measurements of a mailbox. The mailbox thread writes; any thread reads recent values. */
private[pillarbox] final class MailboxMetrics {
  private var mails = 0L

  /** Time without input: the default action was suspended for want of it, and no mail ran. */
  val idleTime: PeriodTimer = new PeriodTimer

  /** Time under back-pressure: the default action was suspended for want of room, and no mail ran. */
  val backPressuredTime: PeriodTimer = new PeriodTimer

  /** Nanoseconds from put to run, of a sample of the mail. */
  val mailboxLatency: Histogram = new Histogram(new UniformReservoir)

  private[mailbox] def countMail(): Long = {
    mails += 1
    mails
  }
}
