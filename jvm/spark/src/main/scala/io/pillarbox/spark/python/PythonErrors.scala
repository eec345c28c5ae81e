package io.pillarbox.spark.python

import io.pillarbox.async.HasRetryDelay
import io.pillarbox.spark.ErrorCatalogue

/**
 * A failure in Python. It carries the user's own traceback and no Java stack trace, which would say nothing.
 *
 * @param condition
 *   the error's name
 * @param kind
 *   the Python exception's class name
 */
sealed abstract class PythonFailure(
    val condition: String,
    val kind: String,
    val text: String,
    val traceback: String,
    message: String
) extends RuntimeException(message, null, false, false)

/**
 * A call of the user's function that failed.
 *
 * @param retryable
 *   what the user's retry predicate says of it
 */
class PythonCallException(kind: String, text: String, traceback: String, val retryable: Boolean)
    extends PythonFailure(
      "ASYNC_CALL_FAILED",
      kind,
      text,
      traceback,
      PythonFailure.message(kind, text, traceback)
    )

object PythonCallException {
  private val NotReadable = "RESULT_NOT_READABLE"

  /** The row is too large to be sent. */
  def tooLarge(bytes: Long, size: FrameSize): PythonCallException =
    new PythonCallException(
      FrameSize.RowTooLarge,
      size.refusal(FrameSize.RowTooLarge, bytes),
      "",
      retryable = false
    )

  /** Spark refuses what the function returned. */
  def notReadable(problem: Throwable): PythonCallException = {
    val text = ErrorCatalogue.text(NotReadable, "reason" -> String.valueOf(problem))
    new PythonCallException(NotReadable, s"[$NotReadable] $text", "", retryable = false)
  }
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

/** The worker can't serve this task any more: the function does not unpickle, a resource does not open, ... */
final class PythonWorkerException(kind: String, text: String, traceback: String)
    extends PythonFailure(
      "PYTHON_WORKER_FAILED",
      kind,
      text,
      traceback,
      PythonFailure.message(kind, text, traceback)
    )

/**
 * The worker process ended without a word.
 *
 * @param memoryLimitMib
 *   its limit, if it had one
 * @param tail
 *   the end of its stderr
 */
final class PythonWorkerDiedException(pid: Long, memoryLimitMib: Option[String], tail: String)
    extends PythonFailure(
      "PYTHON_WORKER_DIED",
      "PYTHON_WORKER_DIED",
      "",
      "",
      s"The Python worker (process $pid) ended while it served this task: killed from outside, for its use of " +
        s"memory${memoryLimitMib.fold("")(mib => s" (spark.executor.pyspark.memory allows it $mib MiB)")}, or by a " +
        "crash in native code. Spark tries the task again, spark.task.maxFailures times at most." +
        (if (tail.isEmpty) "" else s"\nThe end of its stderr:\n$tail")
    )

object PythonFailure {

  private[python] def message(kind: String, text: String, traceback: String): String =
    if (traceback.nonEmpty && traceback.contains(text)) traceback.stripTrailing
    else {
      val head = if (text.isEmpty) kind else s"$kind: $text"
      if (traceback.isEmpty) head else s"$head\n\n${traceback.stripTrailing}"
    }
}
