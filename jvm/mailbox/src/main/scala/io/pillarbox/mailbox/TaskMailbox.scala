package io.pillarbox.mailbox

import java.util

import scala.annotation.tailrec

import com.codahale.metrics.{Histogram, UniformReservoir}

/**
 * Holds the mail of one task: many threads put, one thread at a time, the mailbox thread, takes.
 *
 * Guarantees:
 *   - Mail of one sending thread is handed out in the order it was put; urgent mail before ordinary mail.
 *   - Priority filters and gives no order: a taker gets the oldest mail of at least the priority it asks for;
 *     the mail it passes over keeps its place.
 *   - A batch, once created, is handed out as it is. Urgent mail of other threads waits for its end, and
 *     urgent mail of the mailbox thread goes to its head at most [[TaskMailbox.UrgentBurst]] times; so urgent
 *     mail can't starve ordinary mail. (Flink's, FLINK-39898, can.)
 *   - A put that returns was put while the mailbox was OPEN; otherwise it throws [[MailboxClosedException]].
 *
 * `put`, `size`, `state`, `runExclusively` and `close` may be called by any thread, everything else by the
 * mailbox thread only, and throws `IllegalStateException` on another.
 *
 * @param firstThread the thread that takes, until another one takes over
 */
private[pillarbox] final class TaskMailbox(firstThread: Thread) {
  import TaskMailbox._

  private val inbox = new MailboxInbox
  private val batch = new MailList
  private val urgent = new MailList
  private val ordinary = new MailList

  /** A field of its own, apart from the inbox, whose cache line the senders fight for. */
  @volatile private var closed = false
  @volatile private var sampleWanted = true

  /**
   * Set after each put of urgent mail into the inbox. As long as it is not, a taker leaves the inbox alone
   * while it has mail at hand, and so does not fight the senders for it at every take.
   */
  @volatile private var urgentPut = false

  /** False is certain: then the batch and both lists are empty, and the loop need not look at them. */
  private var atHand = false
  private var overtakes = 0
  private var urgentInARow = 0

  /** The measurements of this mailbox so far. */
  val metrics: MailboxMetrics = new MailboxMetrics

  /** Volatile for threads that only ask whether they are the one. */
  @volatile private var mailboxThread = firstThread
  private var sleeper = new MailSleeper(firstThread)

  def isMailboxThread: Boolean = Thread.currentThread() eq mailboxThread

  /**
   * Makes the calling thread the mailbox thread; mail that waits stays. The caller sees to it that the former
   * one is not using the mailbox, never comes back before it takes over again, and that what it did is
   * visible here.
   */
  def takeOver(): Unit = if (!isMailboxThread) {
    val thread = Thread.currentThread()
    mailboxThread = thread
    sleeper = new MailSleeper(thread)
  }

  /** OPEN, QUIESCED or CLOSED; it may change right after, unless asked inside `runExclusively`. */
  def state: State = inbox.state

  /** Mails that wait. Exact when nothing moves, a recent value otherwise. */
  def size: Int = batch.size + urgent.size + ordinary.size + inbox.size

  /** True if there is any mail: one volatile read at most. */
  def hasMail: Boolean = {
    checkThread()
    !batch.isEmpty || hasQueued || inbox.hasMail
  }

  /**
   * Adds a mail. Never blocks, except for the time that another thread is in `runExclusively`.
   *
   * @throws MailboxClosedException if the mailbox is not OPEN
   */
  def put(mail: Mail): Unit = {
    if (sampleWanted) stamp(mail)
    if (mail.isUrgent) putUrgent(mail) else inbox.push(mail)
  }

  private def putUrgent(mail: Mail): Unit = if (goesIntoBatch) {
    overtakes += 1
    atHand = true
    batch.addUrgent(mail)
  } else {
    inbox.push(mail)
    urgentPut = true
  }

  private def goesIntoBatch: Boolean =
    isMailboxThread && !batch.isEmpty && overtakes < UrgentBurst && (inbox.state eq State.Open)

  private def stamp(mail: Mail): Unit = {
    sampleWanted = false
    mail.putNanos = System.nanoTime() | 1L
  }

  /**
   * The oldest mail of at least `priority`; sleeps until there is one.
   *
   * @throws InterruptedException if interrupted before or during the sleep; no mail is lost
   * @throws MailboxClosedException if CLOSED, also by another thread during the sleep, or if QUIESCED and
   *   without such mail, since none can arrive
   */
  @throws[InterruptedException]
  def take(priority: Int): Mail = {
    var mail = tryTake(priority)
    while (mail eq null) {
      if (inbox.state eq State.Quiesced)
        throw new MailboxClosedException(State.Quiesced, s"hold mail of priority $priority or more", "OPEN")
      awaitMail()
      mail = tryTake(priority)
    }
    mail
  }

  /** Waits for new mail; mail that was passed over is no longer in the inbox. */
  @throws[InterruptedException]
  private def awaitMail(): Unit = {
    sleeper.watch(inbox)
    sleeper.sleep()
  }

  /** Lets `sleeper` be woken by the next mail; false if there is some already. */
  private[mailbox] def watchedBy(sleeper: MailSleeper): Boolean = {
    checkThread()
    batch.isEmpty && !hasQueued && sleeper.watch(inbox)
  }

  /**
   * The oldest mail of at least `priority`, or null.
   *
   * @throws MailboxClosedException if CLOSED
   */
  def tryTake(priority: Int): Mail = {
    checkThread()
    checkNotClosed()
    val first = batch.pollFirst(priority)
    if (first ne null) first else pollQueue(priority)
  }

  private def pollQueue(priority: Int): Mail = {
    if (urgentPut) {
      urgentPut = false
      absorb()
    }
    val queued = pollQueued(priority)
    if (queued ne null) queued
    else {
      absorb()
      pollQueued(priority)
    }
  }

  private def hasQueued: Boolean = !ordinary.isEmpty || !urgent.isEmpty

  /** Writes what it counts only if that changes: senders read this object at every put. */
  private def pollQueued(priority: Int): Mail = {
    val favoured = if (urgentInARow < UrgentBurst) urgent.pollFirst(priority) else null
    if (favoured ne null) {
      urgentInARow += 1
      favoured
    } else {
      val mail = ordinary.pollFirst(priority)
      if ((mail ne null) && urgentInARow != 0) urgentInARow = 0
      if (mail ne null) mail else urgent.pollFirst(priority)
    }
  }

  /** Makes a batch of all mail there is, unless one is still in use; true if the batch has mail. */
  def createBatch(): Boolean = {
    checkThread()
    createBatchHere()
  }

  /** Does as `createBatch`, for the loop, which has checked its thread. */
  private[mailbox] def createBatchHere(): Boolean = (atHand || inbox.mayHaveMail) && gatherBatch()

  private def gatherBatch(): Boolean =
    if (!batch.isEmpty) true
    else if (hasQueued || inbox.mayHaveMail) fillBatch()
    else {
      atHand = false
      false
    }

  private def fillBatch(): Boolean = {
    absorb()
    if (overtakes != 0) overtakes = 0
    queueIntoBatch()
    !batch.isEmpty
  }

  private def queueIntoBatch(): Unit = {
    batch.takeAllOf(urgent)
    batch.takeAllOf(ordinary)
  }

  /**
   * The next mail of the batch, or null at its end.
   *
   * @throws MailboxClosedException if CLOSED
   */
  def tryTakeFromBatch(): Mail = {
    checkThread()
    checkNotClosed()
    batch.pollFirst()
  }

  /** Removes and returns all mail in order: the batch, then the rest, urgent mail first. */
  def drain(): util.List[Mail] = {
    checkThread()
    absorb()
    takeLists()
  }

  private def takeLists(): util.List[Mail] = {
    val all = new util.ArrayList[Mail](size)
    queueIntoBatch()
    while (!batch.isEmpty) all.add(batch.pollFirst())
    all
  }

  /** Refuses new mail from now on, still hands out what it has. Without effect if not OPEN. */
  def quiesce(): Unit = {
    checkThread()
    if (inbox.state eq State.Open) sort(inbox.seal(MailboxInbox.Quiesced))
  }

  /**
   * Refuses puts and takes from now on, and wakes the mailbox thread if it waits in `take`.
   *
   * Called by the mailbox thread it returns all mail that is left, in order, a second time none. Called by
   * another thread it returns the mail that the mailbox thread had not taken over; a later call by the
   * mailbox thread returns the rest. So each mail is returned once.
   */
  def close(): util.List[Mail] = {
    closed = true
    val left = inbox.seal(MailboxInbox.Closed)
    if (isMailboxThread) {
      sort(left)
      takeLists()
    } else oldestFirst(left)
  }

  /**
   * Runs `action` while no other thread can put mail or change the state, so that a check of the state and a
   * put are one step. Other threads' puts wait: keep it short.
   */
  def runExclusively(action: Runnable): Unit = inbox.exclusively(action)

  /** Runs a mail and counts it. Whatever it throws is let through. */
  private[mailbox] def run(mail: Mail): Unit = {
    val put = mail.putNanos
    if (put != 0L) metrics.mailboxLatency.update(System.nanoTime() - put)
    // The volatile write is what a sample costs, so it is paid once in that many mails.
    if ((metrics.countMail() & (SampleEvery - 1)) == 0) sampleWanted = true
    mail.run()
  }

  /** Runs the mail that is there now, as one batch, outside any loop; returns if there was any. */
  @throws[Exception]
  def runDue(): Boolean = {
    val due = createBatch()
    if (due) runBatch()
    due
  }

  private def runBatch(): Unit = {
    var mail = tryTakeFromBatch()
    while (mail ne null) {
      run(mail)
      mail = tryTakeFromBatch()
    }
  }

  private def absorb(): Unit = sort(inbox.takeAll())

  private def sort(newestFirst: Mail): Unit = if (newestFirst ne null) {
    atHand = true
    var mail = reverse(newestFirst, null)
    while (mail ne null) {
      val following = mail.next
      if (mail.isUrgent) urgent.addLast(mail) else ordinary.addLast(mail)
      mail = following
    }
  }

  @tailrec private def reverse(mail: Mail, done: Mail): Mail =
    if (mail eq null) done
    else {
      val older = mail.next
      mail.next = done
      reverse(older, mail)
    }

  private def oldestFirst(newestFirst: Mail): util.List[Mail] = {
    val all = new util.ArrayList[Mail]
    var mail = reverse(newestFirst, null)
    while (mail ne null) {
      all.add(mail)
      mail = mail.next
    }
    all
  }

  private def checkThread(): Unit = if (!isMailboxThread) refuseThread()

  private def refuseThread(): Nothing = throw new IllegalStateException(
    s"Only the mailbox thread '${mailboxThread.getName}' may take mail, but this is thread " +
      s"'${Thread.currentThread().getName}': send a mail instead."
  )

  private def checkNotClosed(): Unit =
    if (closed) throw new MailboxClosedException(State.Closed, "hand out mail", "OPEN or QUIESCED")
}

private[pillarbox] object TaskMailbox {

  /** The priority of the task itself: only the loop takes its mail, no operator's yield. */
  final val MinPriority = -1

  /** The priority of control mail: every taker takes it. */
  final val MaxPriority = Int.MaxValue

  /** The most urgent mails that run in a row while ordinary mail waits. */
  final val UrgentBurst = 64

  /** One mail of this number is measured for latency. */
  private final val SampleEvery = 32L

  /** The life of a mailbox; it only ever goes forward. */
  sealed abstract class State(name: String, val acceptsMail: Boolean) {
    override def toString: String = name
  }

  object State {
    case object Open extends State("OPEN", acceptsMail = true)
    case object Quiesced extends State("QUIESCED", acceptsMail = false)
    case object Closed extends State("CLOSED", acceptsMail = false)
  }
}

/** A mailbox that is quiesced refuses new mail; one that is closed neither accepts nor hands out any. */
private[pillarbox] final class MailboxClosedException(
    val state: TaskMailbox.State,
    operation: String,
    required: String
) extends IllegalStateException(
      s"The mailbox is $state and does not $operation: this needs the state $required. " +
        "The task is ending; drop the action or send it earlier."
    )

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
