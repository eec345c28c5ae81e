package io.pillarbox.spark.async

import java.util.concurrent.{ConcurrentLinkedQueue, LinkedBlockingQueue, ThreadLocalRandom, TimeUnit}
import java.util.{Collection => JCollection, List => JList}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import io.pillarbox.async.queue.AsyncOutput
import io.pillarbox.async.retry.AsyncRetryStrategies
import io.pillarbox.async.{AsyncOptions, AsyncWaitOperator, Batching}
import io.pillarbox.mailbox.{MailboxExecutor, SystemProcessingTimeService, TaskMailbox}
import io.pillarbox.metered.journal.CallTicket
import io.pillarbox.metered.limit._
import io.pillarbox.spark.async.python.{
  CallChannel,
  CallResults,
  PythonAsyncFunction,
  PythonCall,
  PythonRetryAfterException
}
import org.apache.spark.sql.catalyst.InternalRow
import org.scalatest.concurrent.TimeLimits
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

/** Attempts over the channel, whose far end answers on a thread of its own, at once, late, twice or never. */
class PythonAttemptsSuite extends AnyFunSuite with TimeLimits {
  private type Key = (Long, Int)

  /** The far end. It notes what breaks the protocol. */
  private final class Worker(function: PythonAsyncFunction, failing: Double) extends CallChannel {
    private val messages = new LinkedBlockingQueue[() => Unit]
    private val live = mutable.Map.empty[Key, Long]
    private val called = mutable.Set.empty[Key]
    private val ended = mutable.Buffer.empty[Key]
    val broken = new ConcurrentLinkedQueue[String]
    @volatile private var closed = false
    private val thread = new Thread(() => serve(), "far end")

    override def open(): Unit = thread.start()
    override def call(call: PythonCall): Unit =
      messages.add(() => begin(Seq((call.elementId, call.attempt, call.row))))
    override def collect(calls: JList[PythonCall], tickets: JList[CallTicket]): Unit =
      broken.add("no call was given a ticket"): Unit
    override def callGroup(calls: JList[PythonCall]): Unit =
      messages.add(() => begin(calls.asScala.toSeq.map(c => (c.elementId, c.attempt, c.row))))
    override def cancel(elementId: Long, attempt: Int): Unit =
      messages.add(() => onCancel((elementId, attempt)))
    override def giveUp(elementId: Long): Unit = ()
    override def close(): Unit = {
      closed = true
      thread.join()
    }

    private def serve(): Unit =
      try
        while (!closed) {
          val message = messages.poll(1, TimeUnit.MILLISECONDS)
          if (message != null) message()
          if (ThreadLocalRandom.current().nextInt(4) == 0) gossip()
        }
      catch { case error: Throwable => broken.add(error.toString) }

    private def begin(calls: Seq[(Long, Int, InternalRow)]): Unit = {
      calls.foreach { case (id, attempt, row) =>
        if (!called.add((id, attempt))) broken.add(s"attempt $attempt of $id was called again")
        if (attempt > 1 && !called((id, attempt - 1)))
          broken.add(s"attempt $attempt of $id has no predecessor")
        live((id, attempt)) = row.getLong(0)
      }
      val random = ThreadLocalRandom.current()
      if (random.nextInt(20) == 0) () // these never end by themselves
      else if (random.nextDouble() < failing) calls.foreach { case (id, attempt, _) => fail((id, attempt)) }
      else answer(calls.map { case (id, attempt, _) => (id, attempt) })
    }

    private def fail(key: Key): Unit = {
      end(key)
      function.onFailure(key._1, key._2, new PythonRetryAfterException("RetryAfter", "", "", 0L))
    }

    private def answer(keys: Seq[Key]): Unit = {
      val rows = keys.map(key => InternalRow(live.getOrElse(key, -1L)))
      keys.foreach(end)
      function.onResults(
        new CallResults(
          keys.map(_._1).toArray,
          keys.map(_._2).toArray,
          Array.fill(keys.size)(1),
          rows.toArray
        )
      )
    }

    private def end(key: Key): Unit = {
      live.remove(key)
      ended += key
    }

    private def onCancel(key: Key): Unit = {
      if (!called(key)) broken.add(s"$key was cancelled before it was called")
      live.remove(key)
      ended += key
    }

    /** Something about an attempt that has ended: a row that may not count, or a failure. */
    private def gossip(): Unit = if (ended.nonEmpty) {
      val random = ThreadLocalRandom.current()
      val key = ended(random.nextInt(math.max(0, ended.size - 50), ended.size))
      if (random.nextBoolean()) answer(Seq(key)) else fail(key)
    }
  }

  private def run(
      elements: Int,
      failing: Double,
      change: AsyncOptions[InternalRow, InternalRow] => AsyncOptions[InternalRow, InternalRow]
  ): Unit = {
    val executor = new MailboxExecutor(new TaskMailbox(Thread.currentThread()), 1)
    val timers = new SystemProcessingTimeService(executor)
    val function =
      new PythonAsyncFunction(InternalRow(null), identity, error => throw error, lends = false, (_, _) => ())
    val worker = new Worker(function, failing)
    val emitted = mutable.Buffer.empty[(Long, Long)]
    val output = new AsyncOutput[InternalRow, InternalRow] {
      override def emit(row: InternalRow, timestampMs: Long, results: JCollection[InternalRow]): Unit =
        results.forEach(result => emitted += ((row.getLong(0), result.getLong(0))))
    }
    val options = AsyncOptions[InternalRow, InternalRow](ordered = false, capacity = 64).copy(
      attemptTimeoutMs = 20L,
      retry = AsyncRetryStrategies.exponentialBackoff(Int.MaxValue, 0L, 0L, 1.0, 0.0)
    )
    val operator = new AsyncWaitOperator(function, change(options), executor, timers, output)
    function.connect(worker, operator.completionBatch())
    operator.open()
    failAfter(Span(60, Seconds)) {
      (0 until elements).foreach(i => operator.processElement(InternalRow(i.toLong), 0L))
      operator.endInputReached()
      while (!operator.isDrained) executor.yieldMail()
    }
    operator.close()
    timers.close()
    assert(worker.broken.asScala.toSeq.isEmpty)
    assert(emitted.map(_._1).sorted == (0L until elements.toLong))
    assert(emitted.forall { case (row, result) => row == result }, "each row has its own answer")
  }

  for (size <- Seq(None, Some(1), Some(5), Some(16)); permits <- Seq(None, Some(2)))
    test(
      s"no answer is lost or mixed up while attempts fail and follow at once: batches $size, permits $permits"
    ) {
      val limiter = permits.fold(Limiter.Unlimited: Limiter)(TestLimit.ofCalls(_))
      run(1500, 0.4, _.copy(batching = size.map(Batching(_, 1)), limiter = limiter))
      limiter match {
        case limited: LocalLimit => assert(limited.inUse == 0)
        case _ => ()
      }
    }
}
