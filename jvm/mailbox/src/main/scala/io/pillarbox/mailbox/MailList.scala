package io.pillarbox.mailbox

/**
 * First-in-first-out list of mail that links the mails themselves. For the mailbox thread only. The JDK's
 * lists would take a node or a place in an array for each, and mail is put millions of times a second.
 */
private[mailbox] final class MailList {
  private var head: Mail = _
  private var tail: Mail = _
  private var count: Int = 0

  def isEmpty: Boolean = head eq null

  /** Exact on the mailbox thread, a recent value on others. */
  def size: Int = count

  def addLast(mail: Mail): Unit = {
    mail.next = null
    if (head eq null) head = mail else tail.next = mail
    tail = mail
    count += 1
  }

  /** Inserts behind the urgent mail at the head, so that urgent mail stays in the order it was put. */
  def addUrgent(mail: Mail): Unit = {
    var last: Mail = null
    var after = head
    while ((after ne null) && after.isUrgent) {
      last = after
      after = after.next
    }
    mail.next = after
    if (last eq null) head = mail else last.next = mail
    if (after eq null) tail = mail
    count += 1
  }

  def pollFirst(): Mail = {
    val first = head
    if (first ne null) {
      head = first.next
      if (head eq null) tail = null
      first.next = null
      count -= 1
    }
    first
  }

  /** Removes the oldest mail of at least `priority`; null if there is none. The others keep their places. */
  def pollFirst(priority: Int): Mail = {
    var before: Mail = null
    var mail = head
    while ((mail ne null) && mail.priority < priority) {
      before = mail
      mail = mail.next
    }
    if (mail ne null) unlink(before, mail)
    mail
  }

  private def unlink(before: Mail, mail: Mail): Unit = {
    if (before eq null) head = mail.next else before.next = mail.next
    if (mail eq tail) tail = before
    mail.next = null
    count -= 1
  }

  /** Moves all mail of `other` behind this one's, in constant time. */
  def takeAllOf(other: MailList): Unit = if (!other.isEmpty) {
    if (head eq null) head = other.head else tail.next = other.head
    tail = other.tail
    count += other.count
    other.head = null
    other.tail = null
    other.count = 0
  }
}
