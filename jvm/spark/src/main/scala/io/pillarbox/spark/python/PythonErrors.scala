package io.pillarbox.spark.python

import io.pillarbox.async.HasRetryDelay
import io.pillarbox.spark.{ErrorCatalogue, FailureReport}

/**
 * A failure in Python. It carries the user's own traceback and no Java stack trace, which would say nothing.
 *
 * @param kind
 *   the Python exception's class name, or a name of ours
 */
sealed abstract class PythonFailure(val kind: String, val text: String, val traceback: String)
    extends RuntimeException(s"$kind: $text", null, false, false)

/**
 * A call of the user's function that failed.
 *
 * @param retryable
 *   what the user's retry predicate says of it
 */
class PythonCallException(kind: String, text: String, traceback: String, val retryable: Boolean)
    extends PythonFailure(kind, text, traceback)

object PythonCallException {
  private val NotReadable = "RESULT_NOT_READABLE"

  /** The row is too large to be sent. */
  def tooLarge(bytes: Long, size: FrameSize): PythonCallException =
    ours(size.refusal(FrameSize.RowTooLarge, bytes))

  /** Spark refuses what the function returned. */
  def notReadable(problem: Throwable): PythonCallException =
    ours(FailureReport.of(NotReadable, "", "reason" -> String.valueOf(problem)))

  private def ours(report: FailureReport): PythonCallException =
    new PythonCallException(report.name, s"[${report.name}] ${report.text}", "", retryable = false)
}

/**
 * A failed call that said itself when to try again.
 *
 * @param retryDelayMs
 *   in ms, at least 0
 */
final class PythonRetryAfterException(kind: String, text: String, traceback: String, val retryDelayMs: Long)
    extends PythonCallException(kind, text, traceback, retryable = true)
    with HasRetryDelay

/**
 * The task can't go on: a keyed function failed, a function does not unpickle, a resource does not open, the worker
 * died, ...
 */
sealed abstract class PythonTaskFailure(kind: String, text: String, traceback: String)
    extends PythonFailure(kind, text, traceback) {

  /** @param operator the one whose task it is, as messages call it */
  def report(operator: String): FailureReport
}

/**
 * The worker said so.
 *
 * @param told
 *   all but the operator
 */
final class PythonWorkerException(told: FailureReport)
    extends PythonTaskFailure(told.kind, told.text, told.traceback) {
  override def report(operator: String): FailureReport = told.copy(operator = operator)
}

/**
 * The worker process ended without a word.
 *
 * @param memoryLimitMib
 *   its limit, if it had one
 * @param tail
 *   the end of its stderr
 */
final class PythonWorkerDiedException(pid: Long, memoryLimitMib: Option[String], tail: String)
    extends PythonTaskFailure(
      PythonWorkerDiedException.Name,
      PythonWorkerDiedException.text(pid, memoryLimitMib, tail),
      ""
    ) {
  override def report(operator: String): FailureReport =
    FailureReport.titled(PythonWorkerDiedException.Name, text, operator)
}

private object PythonWorkerDiedException {
  private val Name = "PYTHON_WORKER_DIED"

  private def text(pid: Long, memoryLimitMib: Option[String], tail: String): String = ErrorCatalogue.text(
    Name,
    "pid" -> pid,
    "limit" -> memoryLimitMib.fold("")(mib => s" (spark.executor.pyspark.memory allows it $mib MiB)"),
    "stderr" -> (if (tail.isEmpty) "" else s"\nThe end of its stderr:\n$tail")
  )
}
