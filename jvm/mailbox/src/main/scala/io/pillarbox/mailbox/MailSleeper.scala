package io.pillarbox.mailbox

import java.util.concurrent.locks.LockSupport

/**
 * Puts a thread to sleep until mail comes to any of the mailboxes that it watches.
 *
 * First [[watch]] each of them as its mailbox thread, then [[sleep]], which forgets them all. Mail that comes
 * between the two ends the sleep at once. A mailbox that another thread takes over meanwhile is no longer
 * watched.
 *
 * @param thread the thread that sleeps; everything here is for it alone
 */
private[pillarbox] final class MailSleeper(thread: Thread) {
  private val watched = new java.util.ArrayList[MailboxInbox]

  /** False if the mailbox has mail, or may have. */
  def watch(mailbox: TaskMailbox): Boolean = mailbox.watchedBy(this)

  private[mailbox] def watch(inbox: MailboxInbox): Boolean = inbox.mark(this) && watched.add(inbox)

  /**
   * Sleeps until there is mail, or there may be; does not sleep if nothing is watched.
   *
   * @throws InterruptedException if interrupted before or during the sleep; no mail is lost
   */
  @throws[InterruptedException]
  def sleep(): Unit =
    try {
      if (Thread.interrupted()) throw new InterruptedException("Interrupted before waiting for mail")
      while (nothingCame) {
        LockSupport.park(this)
        if (Thread.interrupted()) throw new InterruptedException("Interrupted while waiting for mail")
      }
    } finally forget()

  /** Ends the watch without a sleep. */
  def forget(): Unit = {
    watched.forEach(inbox => inbox.unmark(this))
    watched.clear()
  }

  private def nothingCame: Boolean = {
    var i = watched.size - 1
    while (i >= 0 && watched.get(i).hasMark(this)) i -= 1
    i < 0 && !watched.isEmpty
  }

  private[mailbox] def wake(): Unit = LockSupport.unpark(thread)
}
