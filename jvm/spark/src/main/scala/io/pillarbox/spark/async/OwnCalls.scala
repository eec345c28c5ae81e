package io.pillarbox.spark.async

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.util.Collections
import java.util.concurrent.{CompletableFuture, TimeUnit, TimeoutException}

import scala.collection.mutable
import scala.util.control.NonFatal

import io.pillarbox.api.AsyncTimeoutException
import io.pillarbox.async.{AsyncMetrics, CallPermits}
import io.pillarbox.metered.budget.{BudgetExceeded, BudgetPart}
import io.pillarbox.metered.limit.Feedback
import io.pillarbox.spark.async.python.{PythonCallException, PythonRetryAfterException}
import io.pillarbox.spark.worker.{Frame, WorkerCalls}
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.pillarbox.TaskKills

/**
 * The calls that a task's worker makes by itself, as those of `process_keyed_async`: under the operator's
 * limits and budget, and with a bill. For the task's thread, which reads the worker's messages.
 *
 * @param broken takes an error of this class itself, on any thread
 */
private[async] final class OwnCalls(
    factory: OwnCalls.Factory,
    context: TaskContext,
    send: (Byte, ByteBuffer) => Unit,
    broken: Throwable => Unit
) extends WorkerCalls {
  import OwnCalls._
  import factory.spec

  private val metrics = new AsyncMetrics(spec.usageUnits)
  private val bill = TaskBill.of(spec, context, metrics, factory.metrics)
  private val held: HeldLimits = ExecutorLimits.ofProcess.hold(factory.limitKeys, spec.limits, spec.units)
  private val charges = orClosed(held.charges(spec.operator, factory.estimates))
  private val needsRows = !factory.estimates.forall(_.foldable)
  private val functions = charges.fold(0)(_.functions)
  private val budget = orClosed(for {
    budget <- spec.budget
    key <- factory.budgetKey
  } yield Lending.ofProcess.hold(key, budget.terms))

  /** For each row of the frame its charges, or the error for it. */
  private val charged = mutable.ArrayBuffer.empty[AnyRef]
  private lazy val fixed = if (charges.isEmpty) null else chargesOf(InternalRow.empty)
  private val line = new PermitLine(s"${spec.name} task ${context.taskAttemptId()}", send, broken)
  private val permits = new CallPermits(held.gate, budget.map(_.part), metrics, line, Answers)
  private var published = Map.empty[String, Long]
  private var reportedNanos = System.nanoTime - ReportNanos
  private var isClosed = false

  private def orClosed[T](made: => T): T =
    try made
    catch {
      case problem: Throwable =>
        held.close()
        throw problem
    }

  override def add(row: InternalRow): Unit = if (needsRows) charged += chargesOf(row)

  override def answered(): Unit = charged.clear()

  private def chargesOf(row: InternalRow): AnyRef =
    try charges.get(Collections.singletonList(row))
    catch { case NonFatal(error) => error }

  override def take(message: Frame): Unit =
    if (message.kind == WorkerCalls.Tally) takeTally(message)
    else while (message.body.hasRemaining) takeAttempt(message.body)

  private def takeAttempt(body: ByteBuffer): Unit = {
    val (what, id) = (body.get(), body.getLong)
    what match {
      case Ask => ask(id, body.getInt, Array.fill(functions)(body.getDouble))
      case Ended =>
        val error = errorOf(body.get().toInt, body.getLong)
        val used = amounts(body)
        line.execute(() => permits.ended(id, used, error))
      case GaveUp =>
        val (hasBegun, used) = (body.get() == 1, amounts(body))
        line.execute(() => permits.gaveUp(id, hasBegun, used))
      case Heard =>
        val (unit, remaining, nanos) = (body.getInt, body.getDouble, (body.getDouble * 1e9).toLong)
        line.execute(() =>
          if (unit == AllLimits) permits.pause(id, nanos)
          else permits.told(id, unit, Feedback(remaining, nanos))
        )
      case RowEnded =>
        val isFailed = body.get() == 1
        line.execute(() => permits.rowEnded(isFailed))
      case other => throw new IllegalStateException(s"The Python worker sent a message of the kind $other")
    }
  }

  /** @param returned the amounts that functions in the worker have returned for the row */
  private def ask(id: Long, row: Int, returned: Array[Double]): Unit =
    withReturned(if (needsRows) charged(row) else fixed, returned) match {
      case error: Throwable => line.execute(() => Answers.refused(id, error))
      case found => line.execute(() => permits.ask(id, found.asInstanceOf[Array[Double]]))
    }

  private def withReturned(found: AnyRef, returned: Array[Double]): AnyRef = found match {
    case amounts: Array[Double] if returned.nonEmpty =>
      try charges.get.withReturned(amounts, returned)
      catch { case NonFatal(error) => error }
    case _ => found
  }

  private def amounts(body: ByteBuffer): Int => Double = {
    val all = Array.fill(spec.units.size)(body.getDouble)
    all(_)
  }

  private def takeTally(message: Frame): Unit = {
    import message.body
    metrics.calls += body.getLong
    metrics.calledRows = metrics.calls
    metrics.retries += body.getLong
    metrics.timeouts += body.getLong
    metrics.errors += body.getLong
    metrics.rateLimited += body.getLong
    (0 until body.getInt).foreach(_ => metrics.usage.add(message.readText(), body.getDouble))
    while (body.hasRemaining) metrics.latencies.add(body.getLong * NanosPerMicro)
    publish()
    val now = System.nanoTime
    if (now - reportedNanos >= ReportNanos) {
      reportedNanos = now
      bill.report()
    }
  }

  private def publish(): Unit = {
    held.takeBreakerCounts { (times, nanos) =>
      metrics.breakerOpenings += times
      metrics.breakerOpenNanos += nanos
    }
    published = OwnCallMetrics.publish(factory.metrics, metrics, published)
  }

  override def settle(): Unit = budget.filter(_ => spec.budget.exists(_.raises)).foreach { held =>
    val answer = new CompletableFuture[AnyRef]
    // After what the worker has told of rows.
    line.execute(() => settle(held.part, answer))
    while (!answer.isDone) {
      TaskKills.check(context)
      try answer.get(SettleMs, TimeUnit.MILLISECONDS): Unit
      catch { case _: TimeoutException => () }
    }
    answer.get() match {
      case exceeded: BudgetExceeded => throw RowFailurePolicy.ofEnd(spec, exceeded)
      case _ => ()
    }
  }

  private def settle(part: BudgetPart, answer: CompletableFuture[AnyRef]): Unit = {
    lazy val ask: Runnable = () => {
      val found = part.settle(ask)
      if (found ne BudgetPart.Wait) answer.complete(found): Unit
    }
    ask.run()
  }

  override def close(): Unit = if (!isClosed) {
    isClosed = true
    try if (factory.mayRefuse) line.close(() => permits.close())
    finally
      try held.close()
      finally
        budget.foreach(_.close())
  }

  override def end(): Unit = {
    publish()
    bill.end()
  }

  /** Writes to the worker what becomes of its attempts. */
  private object Answers extends CallPermits.Answer {
    override def begins(id: Long): Unit = line.answer(Frame.buffer(9).put(Begins).putLong(id))

    override def refused(id: Long, reason: Throwable): Unit = {
      val (kind, text, ends) = RowFailurePolicy.refusal(spec, reason)
      val texts = Seq(kind, text).map(_.getBytes(UTF_8))
      val answer = Frame.buffer(9 + texts.map(_.length + 4).sum)
      answer.put(if (ends) EndsTask else Refused).putLong(id)
      texts.foreach(text => answer.putInt(text.length).put(text))
      line.answer(answer)
    }
  }
}

private[pillarbox] object OwnCalls {

  /**
   * @param limitKeys name what each of the operator's limits counts, for tasks that share it
   * @param budgetKey names the operator's budget for executors, if it has one
   * @param estimates the amounts that limits charge a row with, over the rows that come in
   */
  final case class Factory(
      spec: AsyncIOSpec,
      limitKeys: Seq[String],
      budgetKey: Option[String],
      estimates: Seq[Expression],
      metrics: Map[String, SQLMetric]
  ) extends WorkerCalls.Factory {
    override def mayRefuse: Boolean = spec.limits.nonEmpty || spec.budget.isDefined

    override def open(
        context: TaskContext,
        send: (Byte, ByteBuffer) => Unit,
        broken: Throwable => Unit
    ): WorkerCalls = new OwnCalls(this, context, send, broken)
  }

  // Of the worker's messages.
  private final val Ask: Byte = 1
  private final val Ended: Byte = 2
  private final val GaveUp: Byte = 3
  private final val Heard: Byte = 4
  private final val RowEnded: Byte = 5

  // Of the answers.
  private final val Begins: Byte = 1
  private final val Refused: Byte = 2
  private final val EndsTask: Byte = 3

  private final val SettleMs = 100L
  private final val NanosPerMicro = 1000L
  private val ReportNanos = TimeUnit.SECONDS.toNanos(5)

  /** In the place of a unit: what is said of all limits. */
  private final val AllLimits = -2

  private final val Failed = 1
  private final val Overload = 2
  private final val PausesLimits = 4
  private final val TimedOut = 8

  /** Returns what a gate is told of the end of an attempt; null for an answer. */
  private def errorOf(flags: Int, retryAfterMs: Long): Throwable = {
    def has(flag: Int) = (flags & flag) != 0
    if (!has(Failed)) null
    else if (has(TimedOut)) AsyncTimeoutException.attempt(1, 0L)
    else if (retryAfterMs >= 0)
      new PythonRetryAfterException("", "", "", retryAfterMs, all = has(PausesLimits))
    else new PythonCallException("", "", "", retryable = false, has(Overload))
  }
}
