package io.pillarbox.mailbox

/** What a mailbox measures. Written by the mailbox thread; any thread may read, and gets recent values. */
final class MailboxMetrics {
  private[this] var mails = 0L
  private[this] val latency = new LogHistogram

  /** Time without input: the default action was suspended for want of it, and no mail ran. */
  val idleTime: PeriodTimer = new PeriodTimer

  /** Time under back-pressure: the default action was suspended for want of room, and no mail ran. */
  val backPressuredTime: PeriodTimer = new PeriodTimer

  /** Mails run so far. */
  def mailsProcessed: Long = mails

  /** Nanoseconds from put to run, of a sample of the mail. */
  def mailboxLatency: LogHistogram = latency

  private[mailbox] def countMail(): Long = {
    mails += 1
    mails
  }

  private[mailbox] def recordLatency(nanos: Long): Unit = latency.record(nanos)
}
