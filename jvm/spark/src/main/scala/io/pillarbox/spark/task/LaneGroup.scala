package io.pillarbox.spark.task

import java.util.ArrayList

import io.pillarbox.mailbox.MailSleeper

/** The lanes of a task that one thread pulled last, and whose mail it runs. For that thread only. */
private[task] final class LaneGroup(thread: Thread) {
  private val lanes = new ArrayList[TaskLane]
  private val sleeper = new MailSleeper(thread)

  def isOfCurrentThread: Boolean = Thread.currentThread() eq thread

  /** Adds a lane, and forgets those that have ended or went to other threads. */
  def add(lane: TaskLane): Unit = {
    lanes.removeIf(known => (known eq lane) || !known.isServedBy(this))
    lanes.add(lane): Unit
  }

  /** Runs the mail of all lanes but one; false if there was none. */
  def runMail(except: TaskLane): Boolean =
    lanes.size > 1 && anyBut(except)(_.ifServedBy(this)(_.mailbox.runDue()))

  def hasMail(except: TaskLane): Boolean =
    lanes.size > 1 && anyBut(except)(_.ifServedBy(this)(_.mailbox.hasMail))

  /** Sleeps until there is mail in any lane; the thread is inside one of them. */
  @throws[InterruptedException]
  def awaitMail(): Unit = {
    val hasMail = anyBut(null)(_.ifServedBy(this)(lane => !sleeper.watch(lane.mailbox)))
    if (hasMail) sleeper.forget() else sleeper.sleep()
  }

  /** Iterates by number, as mail may add or remove lanes. */
  private def anyBut(except: TaskLane)(action: TaskLane => Boolean): Boolean = {
    var any = false
    var i = 0
    while (i < lanes.size) {
      val lane = lanes.get(i)
      if ((lane ne except) && action(lane)) any = true
      i += 1
    }
    any
  }
}
