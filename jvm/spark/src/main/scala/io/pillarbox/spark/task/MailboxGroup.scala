package io.pillarbox.spark.task

import java.util.ArrayList

import io.pillarbox.mailbox.MailSleeper

/** The mailboxes of a task that one thread pulled last, and whose mail it runs. For that thread only. */
private[task] final class MailboxGroup(thread: Thread) {
  private val mailboxes = new ArrayList[OperatorMailbox]
  private val sleeper = new MailSleeper(thread)

  def isOfCurrentThread: Boolean = Thread.currentThread() eq thread

  /** Adds a mailbox, and forgets those that have ended or went to other threads. */
  def add(operatorMailbox: OperatorMailbox): Unit = {
    mailboxes.removeIf(known => (known eq operatorMailbox) || !known.isServedBy(this))
    mailboxes.add(operatorMailbox): Unit
  }

  /** Runs the mail of all mailboxes but one; false if there was none. */
  def runMail(except: OperatorMailbox): Boolean =
    mailboxes.size > 1 && anyBut(except)(_.ifServedBy(this)(_.mailbox.runDue()))

  def hasMail(except: OperatorMailbox): Boolean =
    mailboxes.size > 1 && anyBut(except)(_.ifServedBy(this)(_.mailbox.hasMail))

  /** Sleeps until there is mail in any mailbox; the thread is inside one of them. */
  @throws[InterruptedException]
  def awaitMail(): Unit = {
    val hasMail = anyBut(null)(_.ifServedBy(this)(operatorMailbox => !sleeper.watch(operatorMailbox.mailbox)))
    if (hasMail) sleeper.forget() else sleeper.sleep()
  }

  /** Iterates by number, as mail may add or remove mailboxes. */
  private def anyBut(except: OperatorMailbox)(action: OperatorMailbox => Boolean): Boolean = {
    var any = false
    var i = 0
    while (i < mailboxes.size) {
      val operatorMailbox = mailboxes.get(i)
      if ((operatorMailbox ne except) && action(operatorMailbox)) any = true
      i += 1
    }
    any
  }
}
