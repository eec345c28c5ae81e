package io.pillarbox.spark.async

import java.util.{Collection => JCollection, Collections => JCollections}

import io.pillarbox.api.AsyncTimeoutException
import io.pillarbox.async.retry.FailurePolicy
import io.pillarbox.spark.base.{ErrorCatalogue, FailureReport, JvmExceptions}
import io.pillarbox.spark.task.{ReportedException, UserErrors}
import io.pillarbox.spark.worker.PythonFailure
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.unsafe.types.UTF8String

/**
 * What `on_error` says: fail the task, emit nulls, or emit nulls and describe the failure in a column.
 *
 * @param show
 *   a row's text for messages
 */
private[pillarbox] final class RowFailurePolicy(spec: AsyncIOSpec, show: InternalRow => String)
    extends FailurePolicy[InternalRow, InternalRow] {
  import RowFailurePolicy._

  override def onFailure(
      input: InternalRow,
      cause: Throwable,
      attempts: Int,
      elapsedMs: Long
  ): JCollection[InternalRow] = spec.onError match {
    case OnError.Raise => throw failure(input, Failure.of(cause), attempts, elapsedMs)
    case OnError.Null => JCollections.singletonList(new GenericInternalRow(spec.returns.length))
    case OnError.Column => JCollections.singletonList(errorRow(Failure.of(cause), attempts, elapsedMs))
  }

  private def errorRow(failure: Failure, attempts: Int, elapsedMs: Long): InternalRow = {
    val row = new GenericInternalRow(spec.returns.length + 1)
    val (kind, message) = (UTF8String.fromString(failure.kind), UTF8String.fromString(failure.message))
    row.update(spec.returns.length, new GenericInternalRow(Array[Any](kind, message, attempts, elapsedMs)))
    row
  }

  private def failure(input: InternalRow, failure: Failure, attempts: Int, elapsedMs: Long): Throwable = {
    val row = show(input)
    val report =
      if (ErrorCatalogue.has(failure.kind)) found(failure, row) else called(failure, row, attempts, elapsedMs)
    UserErrors.failure(
      report.copy(
        kind = failure.kind,
        message = failure.message.stripPrefix(s"[${failure.kind}] "),
        traceback = failure.traceback,
        row = Some(row),
        attempts = Some(attempts),
        elapsedMs = Some(elapsedMs)
      )
    )
  }

  /** An error of ours, which keeps its name. */
  private def found(failure: Failure, row: String): FailureReport = {
    val text = failure.message.stripPrefix(s"[${failure.kind}] ")
    FailureReport.titled(failure.kind, s"$text It came for the row ($row).", spec.operator)
  }

  private def called(failure: Failure, row: String, attempts: Int, elapsedMs: Long): FailureReport =
    FailureReport.of(
      CallFailed,
      spec.operator,
      "attempts" -> (if (attempts == 1) "1 attempt" else s"$attempts attempts"),
      "elapsed_ms" -> elapsedMs,
      "row" -> row,
      "kind" -> failure.kind,
      "reason" -> failure.message.stripSuffix(".")
    )
}

private[pillarbox] object RowFailurePolicy {
  private final val CallFailed = "ASYNC_CALL_FAILED"

  /** Of a call that had no answer in time; the Python engine has the same. */
  private final val Timeout = "TIMEOUT"

  /** The failure of a call as the error column, and the one who catches the error, see it. */
  private final case class Failure(kind: String, message: String, traceback: String)

  private object Failure {
    def of(cause: Throwable): Failure = cause match {
      case python: PythonFailure => Failure(python.kind, python.text, python.traceback)
      case ours: ReportedException =>
        Failure(
          ours.report.condition,
          s"[${ours.report.condition}] ${ours.report.text}",
          ours.report.traceback
        )
      case timeout: AsyncTimeoutException => Failure(Timeout, timeout.getMessage, "")
      case other =>
        Failure(JvmExceptions.kindOf(other), JvmExceptions.messageOf(other), JvmExceptions.traceOf(other))
    }
  }
}
