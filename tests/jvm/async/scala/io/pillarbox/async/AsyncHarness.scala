package io.pillarbox.async

import java.util

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import io.pillarbox.api.{AsyncFunction, ResultFuture}
import io.pillarbox.async.queue.{AsyncOutput, StreamElement}
import io.pillarbox.async.retry.{AsyncRetryStrategies, FailurePolicy}
import io.pillarbox.mailbox._
import io.pillarbox.metered.journal.CallTicket

/**
 * An async operator on this thread with a hand-moved clock, whose calls are answered by the test.
 *
 * Inputs and rows are strings; what leaves is noted in `emitted` ("input=>row,row").
 */
final class AsyncHarness(options: AsyncOptions[String, String], startMs: Long = 0L) {
  import AsyncHarness.{Call, MostMails, Poll}

  val mailbox = new TaskMailbox(Thread.currentThread())
  val executor = new MailboxExecutor(mailbox, 1)
  val time = new ManualProcessingTimeService(executor, startMs)
  val emitted: mutable.Buffer[String] = mutable.Buffer.empty
  val calls: mutable.Buffer[Call] = mutable.Buffer.empty

  /** The inputs of each call of the batch form. */
  val groups: mutable.Buffer[Seq[String]] = mutable.Buffer.empty

  /** The polls of tickets, in the order in which they were made. */
  val polls: mutable.Buffer[Poll] = mutable.Buffer.empty
  val cancelled: mutable.Buffer[String] = mutable.Buffer.empty
  val timedOut: mutable.Buffer[String] = mutable.Buffer.empty
  val gaveUp: mutable.Buffer[Long] = mutable.Buffer.empty
  var isClosed = false

  /** What an attempt does when it is made; by default it waits for the test. */
  var onInvoke: Call => Unit = _ => ()

  /** What a poll does when it is made; by default it waits for the test. */
  var onCollect: Poll => Unit = _ => ()

  /** What the total timeout does; by default what the library does. */
  var onTimeout: Option[(String, ResultFuture[String]) => Unit] = None

  private val function = new AsyncFunction[String, String]
    with BatchAsyncFunction[String, String]
    with LookAheadFunction[String, String]
    with TicketedFunction[String, String] {
    override def collect(
        inputs: util.List[String],
        tickets: util.List[CallTicket],
        futures: util.List[ResultFuture[String]]
    ): Unit = {
      val each = futures.asScala.toSeq.map(_.asInstanceOf[ElementFuture[String]])
      polls += Poll(tickets.get(0).text, inputs.asScala.toSeq, tickets.asScala.toSeq.map(_.place), each)
      onCollect(polls.last)
    }
    override def asyncInvokeBatch(
        inputs: util.List[String],
        futures: util.List[ResultFuture[String]]
    ): Unit = {
      groups += inputs.asScala.toSeq
      inputs.asScala.zip(futures.asScala).foreach { case (input, future) => asyncInvoke(input, future) }
    }
    override def asyncInvoke(input: String, future: ResultFuture[String]): Unit = {
      assert(mailbox.isMailboxThread)
      val call = Call(input, future.attempt, future.asInstanceOf[ElementFuture[String]])
      calls += call
      onInvoke(call)
    }
    override def timeout(input: String, future: ResultFuture[String]): Unit = {
      timedOut += input
      onTimeout.fold(super.timeout(input, future))(_.apply(input, future))
    }
    override def cancel(input: String, future: ResultFuture[String]): Unit =
      cancelled += s"$input#${future.attempt}"
    override def gaveUp(elementId: Long): Unit =
      if (!AsyncHarness.this.gaveUp.contains(elementId)) AsyncHarness.this.gaveUp += elementId
    override def close(): Unit = isClosed = true
  }

  private val output = new AsyncOutput[String, String] {
    override def emit(input: String, timestampMs: Long, results: util.Collection[String]): Unit = {
      assert(mailbox.isMailboxThread)
      emitted += s"$input=>${String.join(",", results)}"
    }
  }

  val operator = new AsyncWaitOperator[String, String](function, options, executor, time, output)
  operator.open()

  def metrics: AsyncMetrics = operator.metrics

  def process(inputs: String*): Unit = inputs.foreach(operator.processElement(_, 0L))

  /** The newest attempt for the input. */
  def future(input: String): ElementFuture[String] = calls.reverseIterator.find(_.input == input).get.future

  def attempts(input: String): Int = calls.count(_.input == input)

  /** Answers the newest attempt with one row named after the input, and runs the mail. */
  def answer(inputs: String*): Unit = {
    inputs.foreach(input => future(input).completeOne(s"${input}1"))
    runMail()
  }

  /** Gives the newest attempts of inputs that were submitted together a ticket, and runs the mail. */
  def issue(ticket: String, inputs: String*): Unit = {
    answerLater(inputs.map(future), inputs.indices.map(CallTicket(ticket, _, inputs.size)))
    runMail()
  }

  /** Tells a poll that there is no answer yet, and runs the mail. */
  def notYet(poll: Poll): Unit = {
    answerLater(poll.futures, poll.futures.map(_ => null))
    runMail()
  }

  private def answerLater(futures: Seq[ElementFuture[String]], tickets: Seq[CallTicket]): Unit = {
    val batch = operator.completionBatch()
    futures.zip(tickets).foreach { case (future, ticket) => batch.pending(future, ticket) }
    batch.flush()
  }

  /** Answers a poll with one row for each input, named after its place, and runs the mail. */
  def collected(poll: Poll): Unit = {
    poll.futures.zip(poll.places).foreach { case (future, place) =>
      future.completeOne(s"${poll.ticket}.$place")
    }
    runMail()
  }

  def fail(input: String, error: Throwable = new RuntimeException("no luck")): Unit = {
    future(input).completeExceptionally(error)
    runMail()
  }

  /** Runs all mail. Fails if it brings forth mail without end. */
  def runMail(): Unit = {
    var left = MostMails
    while (executor.tryYield()) {
      left -= 1
      assert(left > 0, s"more than $MostMails mails at once: one sends the next for ever")
    }
  }

  /** Ends the input, and runs mail until everything has been emitted. */
  def endInput(): Unit = {
    operator.endInputReached()
    while (!operator.isDrained) executor.yieldMail()
  }

  def advanceTo(ms: Long): Unit = {
    time.advanceTo(ms)
    runMail()
  }

  def snapshot: Seq[StreamElement[String, String]] = {
    val all = Seq.newBuilder[StreamElement[String, String]]
    operator.snapshotState().forEach(element => all += element)
    all.result()
  }
}

object AsyncHarness {

  /** More than any test has to run at once. */
  private val MostMails = 100000

  /** One attempt as the function saw it. */
  final case class Call(input: String, attempt: Int, future: ElementFuture[String])

  /** One call for the answers of a ticket. */
  final case class Poll(
      ticket: String,
      inputs: Seq[String],
      places: Seq[Int],
      futures: Seq[ElementFuture[String]]
  )

  def options(ordered: Boolean = true, capacity: Int = 10): AsyncOptions[String, String] =
    AsyncOptions[String, String](ordered, capacity)

  /** Emits the failure as a row instead of failing the task. */
  val FailureAsRow: FailurePolicy[String, String] = (call, cause) =>
    util.List.of(s"failed ${cause.getClass.getSimpleName} after ${call.attempts} in ${call.elapsedMs}")

  def retry(maxAttempts: Int, delayMs: Long): AsyncRetryStrategies.Backoff[String] =
    AsyncRetryStrategies.exponentialBackoff(maxAttempts, delayMs, delayMs, 1.0, 0.0)
}
