package io.pillarbox.spark.async

import java.util.{Collection => JCollection, Collections => JCollections}

import io.pillarbox.async.{AsyncTimeoutException, FailurePolicy}
import io.pillarbox.spark.python.PythonFailure
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.pillarbox.UserErrors
import org.apache.spark.unsafe.types.UTF8String

/**
 * What `on_error` says: fail the task, emit nulls, or emit nulls and describe the failure in a column.
 *
 * @param show
 *   a row's text for messages
 */
final class RowFailurePolicy(spec: AsyncIOSpec, show: InternalRow => String)
    extends FailurePolicy[InternalRow, InternalRow] {

  override def onFailure(
      input: InternalRow,
      cause: Throwable,
      attempts: Int,
      elapsedMs: Long
  ): JCollection[InternalRow] = spec.onError match {
    case OnError.Raise => throw failure(input, cause, attempts, elapsedMs)
    case OnError.Null => JCollections.singletonList(new GenericInternalRow(spec.returns.length))
    case OnError.Column => JCollections.singletonList(errorRow(cause, attempts, elapsedMs))
  }

  private def errorRow(cause: Throwable, attempts: Int, elapsedMs: Long): InternalRow = {
    val row = new GenericInternalRow(spec.returns.length + 1)
    val (kind, message) = RowFailurePolicy.describe(cause)
    val error = Array[Any](UTF8String.fromString(kind), UTF8String.fromString(message), attempts, elapsedMs)
    row.update(spec.returns.length, new GenericInternalRow(error))
    row
  }

  private def failure(input: InternalRow, cause: Throwable, attempts: Int, elapsedMs: Long): Throwable = {
    val times = if (attempts == 1) "1 attempt" else s"$attempts attempts"
    UserErrors.failure(
      "ASYNC_CALL_FAILED",
      s"async_io(${spec.name}): the call failed after $times in $elapsedMs ms for the row " +
        s"(${show(input)}). To go on without such rows use on_error=\"null\" or on_error=\"column\".\n\n" +
        RowFailurePolicy.details(cause),
      null
    )
  }
}

object RowFailurePolicy {

  /** Kind and message of a failure, as the error column shows them. */
  private def describe(cause: Throwable): (String, String) = cause match {
    case python: PythonFailure => (python.kind, python.text)
    case timeout: AsyncTimeoutException => ("TimeoutError", timeout.getMessage)
    case other => (other.getClass.getSimpleName, String.valueOf(other.getMessage))
  }

  private def details(cause: Throwable): String = cause match {
    case python: PythonFailure => python.getMessage
    case timeout: AsyncTimeoutException => s"TimeoutError: ${timeout.getMessage}"
    case other => other.getStackTrace.take(10).mkString(s"$other\n  at ", "\n  at ", "")
  }
}
