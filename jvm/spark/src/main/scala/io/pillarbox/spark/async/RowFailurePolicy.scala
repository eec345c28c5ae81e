package io.pillarbox.spark.async

import java.util.{Collection => JCollection, Collections => JCollections}

import io.pillarbox.api.AsyncTimeoutException
import io.pillarbox.async.PendingException
import io.pillarbox.async.retry.{FailedCall, FailurePolicy}
import io.pillarbox.metered.budget.{BudgetExceeded, BudgetExceededException}
import io.pillarbox.spark.base.{ErrorCatalogue, FailureReport, JvmExceptions}
import io.pillarbox.spark.task.{FailedCalls, FirstFailures, ReportedException}
import io.pillarbox.spark.worker.PythonFailure
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.unsafe.types.UTF8String

/**
 * Applies `on_error`: fails the task, emits nulls, or emits nulls and describes the failure in a column.
 *
 * @param show a row's text for messages
 * @param failed takes note of failures that don't fail the task
 */
private[pillarbox] final class RowFailurePolicy(
    spec: AsyncIOSpec,
    show: InternalRow => String,
    failed: FailedCalls
) extends FailurePolicy[InternalRow, InternalRow] {
  import RowFailurePolicy._

  private val attempts = spec.retry.fold(1)(_.maxAttempts)

  override def onFailure(call: FailedCall[InternalRow], cause: Throwable): JCollection[InternalRow] = {
    val failure = failureOf(spec, cause)
    if (endsTask(cause)) throw raised(call, failure)
    note(call, cause, failure)
    JCollections.singletonList(
      if (spec.onError == OnError.Column) errorRow(call, failure)
      else new GenericInternalRow(spec.returns.length)
    )
  }

  /**
   * Takes note of a call that has failed, unless that is to be the failure of its task.
   *
   * @return the kind, the message and the traceback of the failure, and true if the task is to fail for it
   */
  def taken(call: FailedCall[InternalRow], cause: Throwable): (Seq[String], Boolean) = {
    val failure = failureOf(spec, cause)
    if (!endsTask(cause)) note(call, cause, failure)
    (Seq(failure.kind, failure.message, failure.traceback), endsTask(cause))
  }

  private def endsTask(cause: Throwable) = spec.onError == OnError.Raise || endsBudget(spec, cause)

  private def note(call: FailedCall[InternalRow], cause: Throwable, failure: Failure): Unit = {
    if (!cause.isInstanceOf[PendingException]) tell(call.input, call.attempts, failure)
    failed.row(failure.kind)
  }

  override def onRetry(input: InternalRow, attempt: Int, cause: Throwable): Unit =
    tell(input, attempt, Failure.of(cause))

  private def tell(input: InternalRow, attempt: Int, failure: Failure): Unit = failed.attempt(failure.kind) {
    import failure.{kind, message, traceback}
    FirstFailures.text(spec.operator, kind, attempt, attempts, show(input), message, traceback)
  }

  private def errorRow(call: FailedCall[InternalRow], failure: Failure): InternalRow = {
    val row = new GenericInternalRow(spec.returns.length + 1)
    val Seq(kind, message, callId) =
      Seq(failure.kind, failure.message, call.callId).map(UTF8String.fromString)
    val told = Array[Any](kind, message, call.attempts, call.elapsedMs, callId)
    row.update(spec.returns.length, new GenericInternalRow(told))
    row
  }

  private def raised(call: FailedCall[InternalRow], failure: Failure): Throwable = {
    val row = show(call.input)
    val report = if (ErrorCatalogue.has(failure.kind)) found(failure, row) else called(failure, row, call)
    new ReportedException(
      report.copy(
        kind = failure.kind,
        message = failure.message.stripPrefix(s"[${failure.kind}] "),
        traceback = failure.traceback,
        row = Some(row),
        attempts = Some(call.attempts),
        elapsedMs = Some(call.elapsedMs)
      )
    )
  }

  /** An error of this library, which keeps its name. */
  private def found(failure: Failure, row: String): FailureReport = {
    val text = failure.message.stripPrefix(s"[${failure.kind}] ")
    FailureReport.titled(failure.kind, s"$text It came for the row ($row).", spec.operator)
  }

  private def called(failure: Failure, row: String, call: FailedCall[_]): FailureReport =
    FailureReport.of(
      CallFailed,
      spec.operator,
      "attempts" -> (if (call.attempts == 1) "1 attempt" else s"${call.attempts} attempts"),
      "elapsed_ms" -> call.elapsedMs,
      "row" -> row,
      "kind" -> failure.kind,
      "reason" -> failure.message.stripSuffix(".")
    )
}

private[pillarbox] object RowFailurePolicy {
  private final val CallFailed = "ASYNC_CALL_FAILED"
  private final val Pending = "PENDING"

  /** The kind of a call that had no answer in time; the Python engine has the same. */
  private final val Timeout = "TIMEOUT"

  /** Returns the failure of a task in which no call is left to fail for the budget. */
  def ofEnd(spec: AsyncIOSpec, exceeded: BudgetExceeded): Throwable = {
    val text = spec.budget.fold("")(_.text(exceeded))
    new ReportedException(FailureReport.titled(BudgetSpec.Exceeded, text, spec.operator))
  }

  /** True if the task is to fail since its budget is spent, whatever becomes of other rows that fail. */
  private def endsBudget(spec: AsyncIOSpec, cause: Throwable): Boolean = cause match {
    case spent: BudgetExceededException => spent.exceeded.isNotKept || spec.budget.forall(_.raises)
    case _ => false
  }

  private def failureOf(spec: AsyncIOSpec, cause: Throwable): Failure = cause match {
    case spent: BudgetExceededException =>
      val kind = if (spent.exceeded.isNotKept) BudgetSpec.NotKept else BudgetSpec.Exceeded
      new Failure(kind, s"[$kind] ${spec.budget.fold("")(_.text(spent.exceeded))}", "")
    case pending: PendingException =>
      val report = FailureReport.of(Pending, spec.operator, "ticket" -> pending.ticket)
      new Failure(Pending, s"[$Pending] ${report.text}", "")
    case other => Failure.of(other)
  }

  /** The failure of a call as the error column and the caller who catches the error see it. */
  private final class Failure(val kind: String, text: => String, trace: => String) {
    lazy val message: String = text
    lazy val traceback: String = trace
  }

  private object Failure {
    def of(cause: Throwable): Failure = cause match {
      case python: PythonFailure => new Failure(python.kind, python.text, python.traceback)
      case ours: ReportedException =>
        new Failure(
          ours.report.condition,
          s"[${ours.report.condition}] ${ours.report.text}",
          ours.report.traceback
        )
      case timeout: AsyncTimeoutException => new Failure(Timeout, timeout.getMessage, "")
      case other =>
        new Failure(JvmExceptions.kindOf(other), JvmExceptions.messageOf(other), JvmExceptions.traceOf(other))
    }
  }
}
