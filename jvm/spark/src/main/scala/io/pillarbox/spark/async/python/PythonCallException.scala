package io.pillarbox.spark.async.python

import io.pillarbox.api.RetryAfter
import io.pillarbox.spark.base.FailureReport
import io.pillarbox.spark.worker.{FrameSize, PythonFailure}

/**
 * A call of the user's function that failed.
 *
 * @param retryable the answer of the user's retry predicate
 * @param isOverload true if its status says that the service is overloaded
 * @param endsTicket true if the call's ticket has ended with it
 */
private[pillarbox] class PythonCallException(
    kind: String,
    text: String,
    traceback: String,
    val retryable: Boolean,
    val isOverload: Boolean = false,
    val endsTicket: Boolean = false
) extends PythonFailure(kind, text, traceback)

private[pillarbox] object PythonCallException {
  private val NotReadable = "RESULT_NOT_READABLE"

  /** Returns the failure of a row that is too large to be sent. */
  def tooLarge(bytes: Long, size: FrameSize): PythonCallException =
    ours(size.refusal(FrameSize.RowTooLarge, bytes))

  /** Returns the failure of a result that Spark refuses. */
  def notReadable(reason: String): PythonCallException =
    ours(FailureReport.of(NotReadable, "", "reason" -> reason))

  private def ours(report: FailureReport): PythonCallException =
    new PythonCallException(report.condition, s"[${report.condition}] ${report.text}", "", retryable = false)
}

/**
 * A failed call whose exception says when to try again.
 *
 * @param retryAfterMs the time after which to try again in ms, at least 0
 * @param all true if all calls under the operator's limits are to wait
 * @param endsTicket true if the call's ticket has ended with it
 */
private[pillarbox] final class PythonRetryAfterException(
    kind: String,
    text: String,
    traceback: String,
    val retryAfterMs: Long,
    retryable: Boolean = true,
    override val all: Boolean = false,
    endsTicket: Boolean = false
) extends PythonCallException(kind, text, traceback, retryable, endsTicket = endsTicket)
    with RetryAfter
