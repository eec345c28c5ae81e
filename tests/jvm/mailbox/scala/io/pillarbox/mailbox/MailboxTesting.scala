package io.pillarbox.mailbox

import java.util.concurrent.{CompletableFuture, TimeUnit}

import scala.annotation.tailrec

/**
 * What mailbox suites share: mail that does nothing but be itself, and work on other threads that is waited
 * for.
 */
object MailboxTesting {
  val LimitSeconds = 30L

  def mail(name: String, priority: Int = 0): Mail = new Mail(() => (), priority, name)

  def urgent(name: String, priority: Int = 0): Mail = new Mail(() => (), priority, name, isUrgent = true)

  def names(mails: java.util.List[Mail]): Seq[String] = {
    val all = Seq.newBuilder[String]
    mails.forEach(m => all += m.description)
    all.result()
  }

  /** All of the current batch, by name. */
  def batchOf(mailbox: TaskMailbox): Seq[String] =
    Iterator.continually(mailbox.tryTakeFromBatch()).takeWhile(_ ne null).map(_.description).toSeq

  /** Runs on another thread and gives back its result or exception here. */
  def onAnotherThread[T](body: => T): T = {
    val result = start(body)
    try result.get(LimitSeconds, TimeUnit.SECONDS)
    catch { case error: java.util.concurrent.ExecutionException => throw error.getCause }
  }

  def start[T](body: => T): CompletableFuture[T] = {
    val result = new CompletableFuture[T]
    val thread = new Thread(() =>
      try result.complete(body)
      catch { case error: Throwable => result.completeExceptionally(error) }
    )
    thread.setDaemon(true)
    thread.start()
    result
  }

  def await[T](future: CompletableFuture[T]): T = future.get(LimitSeconds, TimeUnit.SECONDS)

  /** Looks again and again until the condition holds; fails after the limit. */
  def eventually(what: String)(condition: => Boolean): Unit = {
    val deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(LimitSeconds)
    @tailrec def look(): Unit = if (!condition) {
      assert(System.nanoTime() < deadline, s"Never came true: $what")
      Thread.onSpinWait()
      look()
    }
    look()
  }

  /** Until the thread sleeps on the mailbox or a lock. */
  def awaitSleep(thread: Thread): Unit = eventually(s"${thread.getName} sleeps") {
    thread.getState == Thread.State.WAITING || thread.getState == Thread.State.TIMED_WAITING
  }
}
