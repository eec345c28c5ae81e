package io.pillarbox.spark.async.python

import java.util.concurrent.ConcurrentHashMap
import java.util.{ArrayList => JArrayList, Arrays, List => JList}

import io.pillarbox.api.{OpenContext, ResultFuture}
import io.pillarbox.async._
import io.pillarbox.metered.journal.CallTicket
import io.pillarbox.metered.limit.Feedback
import org.apache.spark.sql.catalyst.InternalRow

/**
 * Calls a Python function over a channel, for one row or for many. The mailbox thread starts and cancels
 * calls, the channel's reader thread completes them.
 *
 * Every message of the worker names an element and an attempt, and reaches only the future of that attempt,
 * or nobody: nothing else is kept of an attempt.
 *
 * @param noMatch the row of nulls that stands for "no match"
 * @param shown shows a text that may quote an answer
 * @param fatal takes the reason why the worker can't go on; any thread
 * @param lends the worker gets rows ahead and keeps their places
 * @param noted takes a kind and what was wrong with a report of a call; any thread
 */
private[pillarbox] final class PythonAsyncFunction(
    noMatch: InternalRow,
    shown: String => String,
    fatal: Throwable => Unit,
    lends: Boolean,
    noted: (String, String) => Unit
) extends BatchAsyncFunction[InternalRow, InternalRow]
    with LookAheadFunction[InternalRow, InternalRow]
    with TicketedFunction[InternalRow, InternalRow] {

  private var channel: CallChannel = _
  private var batch: CompletionBatch[InternalRow] = _
  private var usedLate: (String, Double) => Unit = _
  private val pending = new ConcurrentHashMap[java.lang.Long, ResultFuture[InternalRow]]

  /**
   * Sets where calls go and how answers come back. Before the channel opens.
   *
   * @param late takes what attempts have used that are over; any thread
   */
  def connect(
      to: CallChannel,
      answers: CompletionBatch[InternalRow],
      late: (String, Double) => Unit = (_, _) => ()
  ): Unit = {
    channel = to
    batch = answers
    usedLate = late
  }

  override def open(context: OpenContext): Unit = channel.open()

  override def close(): Unit = channel.close()

  override def asyncInvoke(input: InternalRow, future: ResultFuture[InternalRow]): Unit = {
    val elementId = ElementFuture.idOf(future)
    pending.put(elementId, future)
    channel.call(callOf(input, future))
  }

  private def callOf(input: InternalRow, future: ResultFuture[InternalRow]): PythonCall = {
    val own = ElementFuture.of(future)
    PythonCall(own.elementId, own.attempt, input, own.ticketRound)
  }

  override def asyncInvokeBatch(
      inputs: JList[InternalRow],
      futures: JList[ResultFuture[InternalRow]]
  ): Unit = channel.callGroup(callsOf(inputs, futures))

  override def collect(
      inputs: JList[InternalRow],
      tickets: JList[CallTicket],
      futures: JList[ResultFuture[InternalRow]]
  ): Unit = channel.collect(callsOf(inputs, futures), tickets)

  private def callsOf(
      inputs: JList[InternalRow],
      futures: JList[ResultFuture[InternalRow]]
  ): JList[PythonCall] = {
    val calls = new JArrayList[PythonCall](inputs.size)
    var i = 0
    while (i < inputs.size) {
      val call = callOf(inputs.get(i), futures.get(i))
      pending.put(call.elementId, futures.get(i))
      calls.add(call)
      i += 1
    }
    calls
  }

  override def cancel(input: InternalRow, future: ResultFuture[InternalRow]): Unit = {
    val elementId = ElementFuture.idOf(future)
    if (pending.remove(elementId, future)) channel.cancel(elementId, future.attempt)
  }

  override def gaveUp(elementId: Long): Unit = if (lends) channel.giveUp(elementId)

  /** Takes the answers of calls that succeeded. Reader thread. */
  def onResults(results: CallResults): Unit = {
    var next = 0
    var i = 0
    while (i < results.elementIds.length) {
      val count = results.counts(i)
      val future = take(results.elementIds(i), results.attempts(i))
      if (future != null) {
        val problem = results.problem(next, count)
        if (problem == null) complete(future, results.rows, next, count)
        else batch.completeExceptionally(future, PythonCallException.notReadable(shown(problem.toString)))
      }
      next += math.max(count, 0)
      i += 1
    }
    batch.flush()
  }

  private def complete(
      future: ResultFuture[InternalRow],
      rows: Array[InternalRow],
      from: Int,
      count: Int
  ): Unit =
    if (count == 1) batch.completeOne(future, rows(from))
    else if (count < 0) batch.completeOne(future, noMatch)
    else batch.complete(future, Arrays.asList(Arrays.copyOfRange(rows, from, from + count): _*))

  /** Takes what an attempt has used of a unit, before its answer or after it. Reader thread. */
  def onUsage(elementId: Long, attempt: Int, unit: String, amount: Double): Unit = {
    val future = pending.get(elementId)
    if (future != null && future.attempt == attempt) future.reportUsage(unit, amount)
    else usedLate(unit, amount)
  }

  /** Takes what was wrong with a report of a call, once for each kind. Reader thread. */
  def onNote(kind: String, text: String): Unit = noted(kind, text)

  /**
   * Takes what the service said of a limit in an attempt, before its answer. Reader thread.
   *
   * @param unit the number of the unit, -1 for calls, -2 if all limits are to wait
   */
  def onTold(elementId: Long, attempt: Int, unit: Int, remaining: Double, resetS: Double): Unit = {
    val future = pending.get(elementId)
    if (future != null && future.attempt == attempt) {
      val nanos = (resetS * 1e9).toLong
      if (unit == PythonAsyncFunction.Pause) ElementFuture.of(future).pauseLimits(nanos)
      else ElementFuture.of(future).told(unit, Feedback(remaining, nanos))
    }
  }

  /** Takes the failure of one call. Any thread. */
  def onFailure(elementId: Long, attempt: Int, failure: PythonCallException): Unit = {
    val future = take(elementId, attempt)
    if (future != null) future.completeExceptionally(failure)
  }

  /** Takes what tells that the answer comes later, of one call of several, as failures do. Reader thread. */
  def addPending(elementId: Long, attempt: Int, ticket: CallTicket): Unit = {
    val future = take(elementId, attempt)
    if (future != null) batch.pending(future, ticket)
  }

  /** Takes the failure of one call of several, which go on together with `handOver`. Reader thread. */
  def addFailure(elementId: Long, attempt: Int, failure: PythonCallException): Unit = {
    val future = take(elementId, attempt)
    if (future != null) batch.completeExceptionally(future, failure)
  }

  /** Ends a frame of failures, or of tickets. Reader thread. */
  def handOver(): Unit = batch.flush()

  /** Takes the reason why the worker can't go on, which is the last that comes. Any thread. */
  def onFatal(cause: Throwable): Unit = fatal(cause)

  /** Returns the future of this attempt, or null if it was cancelled meanwhile. */
  private def take(elementId: Long, attempt: Int): ResultFuture[InternalRow] = {
    val future = pending.get(elementId)
    if (future != null && future.attempt == attempt && pending.remove(elementId, future)) future else null
  }
}

private object PythonAsyncFunction {

  /** The unit of what is said of all limits. */
  private final val Pause = -2
}
