package io.pillarbox.mailbox

import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.locks.ReentrantLock

import scala.annotation.tailrec

import io.pillarbox.mailbox.MailboxInbox._

/**
 * The put side of a mailbox: a lock-free stack of mail, newest first, that many threads push and one takes
 * whole.
 *
 * The one word of this reference is the whole state: null (open and empty), a [[Mail]] (open, the newest), a
 * [[MailSleeper]] (open and empty, the reader sleeps), [[Quiesced]], [[Closed]], or an [[Exclusive]] section
 * that hides one of these. So the check of the state and the put are one compare-and-set, and only the push
 * that replaces a sleeper pays for a wake-up. The JDK's queues know neither: mail could be put into a closed
 * one between check and put.
 */
private[mailbox] final class MailboxInbox extends AtomicReference[AnyRef] {
  private val sections = new ReentrantLock

  /** Pushes a mail. Any thread. @throws MailboxClosedException if the state is not OPEN */
  @tailrec def push(mail: Mail): Unit = {
    val seen = get()
    if ((seen eq null) || seen.isInstanceOf[Mail]) {
      link(mail, seen)
      if (!compareAndSet(seen, mail)) push(mail)
    } else if (seen.isInstanceOf[MailSleeper]) {
      link(mail, null)
      // The reader is woken by the thread that takes away its mark, hence once a sleep however many push.
      if (compareAndSet(seen, mail)) seen.asInstanceOf[MailSleeper].wake() else push(mail)
    } else if (!pushSlowly(mail, seen)) push(mail)
  }

  private def pushSlowly(mail: Mail, seen: AnyRef): Boolean = seen match {
    case section: Exclusive if section.owner eq Thread.currentThread() =>
      refuseUnlessOpen(section.content)
      link(mail, section.content)
      section.content = mail
      true
    case _: Exclusive =>
      awaitSectionEnd()
      false
    case other =>
      refuseUnlessOpen(other)
      false
  }

  private def link(mail: Mail, below: AnyRef): Unit = below match {
    case older: Mail =>
      mail.next = older
      mail.depth = older.depth + 1
    case _ =>
      mail.next = null
      mail.depth = 1
  }

  private def refuseUnlessOpen(content: AnyRef): Unit = {
    val state = stateOf(content)
    if (state ne TaskMailbox.State.Open) throw new MailboxClosedException(state, "accept mail", "OPEN")
  }

  /** Takes all mail, newest first; null if there is none, or another thread is in an exclusive section. */
  @tailrec def takeAll(): Mail = get() match {
    case mail: Mail => if (compareAndSet(mail, null)) mail else takeAll()
    case section: Exclusive if section.owner eq Thread.currentThread() =>
      section.content match {
        case mail: Mail =>
          section.content = null
          mail
        case _ => null
      }
    case _ => null
  }

  /** Reads one volatile field; false is certain. */
  def mayHaveMail: Boolean = get() ne null

  /** Reads one volatile field. */
  def hasMail: Boolean = content match {
    case _: Mail => true
    case _ => false
  }

  def size: Int = content match {
    case mail: Mail => mail.depth
    case _ => 0
  }

  def state: TaskMailbox.State = stateOf(content)

  private def content: AnyRef = get() match {
    case section: Exclusive => section.content
    case other => other
  }

  /**
   * Mailbox thread: makes the next mail wake `sleeper`; false if there is mail to look at. The mark of a
   * reader that has left gives way.
   */
  @tailrec def mark(sleeper: MailSleeper): Boolean = {
    val seen = get()
    if ((seen eq null) || seen.isInstanceOf[MailSleeper])
      (seen eq sleeper) || compareAndSet(seen, sleeper) || mark(sleeper)
    else {
      if (seen.isInstanceOf[Exclusive]) awaitSectionEnd()
      false
    }
  }

  def hasMark(sleeper: MailSleeper): Boolean = get() eq sleeper

  /** Takes the mark away if it is still there. */
  def unmark(sleeper: MailSleeper): Unit = if (compareAndSet(sleeper, null)) ()

  /** Runs `action` while no other thread can put or change the state. Re-entrant. */
  def exclusively(action: Runnable): Unit = {
    sections.lock()
    try if (sections.getHoldCount > 1) action.run() else enterSection(action)
    finally sections.unlock()
  }

  private def enterSection(action: Runnable): Unit = {
    val section = new Exclusive(Thread.currentThread())
    hide(section)
    val before = section.content
    try action.run()
    finally {
      set(section.content)
      before match {
        case sleeper: MailSleeper if section.content ne sleeper => sleeper.wake()
        case _ => ()
      }
    }
  }

  @tailrec private def hide(section: Exclusive): Unit = {
    val seen = get()
    section.content = seen
    if (!compareAndSet(seen, section)) hide(section)
  }

  private def awaitSectionEnd(): Unit = {
    sections.lock()
    sections.unlock()
  }

  /** Moves to `Quiesced` or `Closed`, never backwards. Returns the mail of the inbox, newest first. */
  def seal(mark: AnyRef): Mail = {
    var taken: Mail = null
    exclusively { () =>
      val section = get().asInstanceOf[Exclusive]
      section.content match {
        case mail: Mail => taken = mail
        case _ => ()
      }
      if (section.content ne Closed) section.content = mark
    }
    taken
  }
}

private[mailbox] object MailboxInbox {
  private final class Mark(name: String) {
    override def toString: String = name
  }
  val Quiesced: AnyRef = new Mark("quiesced")
  val Closed: AnyRef = new Mark("closed")

  /** Only its owner changes `content`; others read it for gauges, hence volatile. */
  final class Exclusive(val owner: Thread) {
    @volatile var content: AnyRef = _
  }

  def stateOf(content: AnyRef): TaskMailbox.State =
    if (content eq Quiesced) TaskMailbox.State.Quiesced
    else if (content eq Closed) TaskMailbox.State.Closed
    else TaskMailbox.State.Open
}
