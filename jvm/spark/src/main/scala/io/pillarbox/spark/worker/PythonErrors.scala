package io.pillarbox.spark.worker

import io.pillarbox.spark.base.{ErrorCatalogue, FailureReport, SpecJson}

/**
 * A failure in Python, with the user's own traceback and no Java stack trace.
 *
 * @param kind the Python exception's class name, or an error name of this library
 */
private[pillarbox] abstract class PythonFailure(val kind: String, val text: String, val traceback: String)
    extends RuntimeException(s"$kind: $text", null, false, false)

/** A failure that ends the task: in a keyed function, in unpickling or opening it, or of the worker. */
private[pillarbox] sealed abstract class PythonTaskFailure(kind: String, text: String, traceback: String)
    extends PythonFailure(kind, text, traceback) {

  /** @param operator the operator whose task it is, as messages name it */
  def report(operator: String): FailureReport
}

/**
 * A failure that the worker reported.
 *
 * @param told the report without the operator
 */
private[pillarbox] final class PythonWorkerException(told: FailureReport)
    extends PythonTaskFailure(told.kind, told.text, told.traceback) {
  override def report(operator: String): FailureReport = told.copy(operator = operator)
}

private[pillarbox] object PythonWorkerException {

  /** Returns the failure in a FATAL frame. */
  def of(frame: Frame): PythonWorkerException =
    new PythonWorkerException(SpecJson.read[FailureReport](frame.readText()))
}

/**
 * The worker process ended without a message.
 *
 * @param memoryLimitMib its limit, if it had one
 * @param tail the end of its stderr
 */
private[pillarbox] final class PythonWorkerDiedException(
    pid: Long,
    memoryLimitMib: Option[String],
    tail: String
) extends PythonTaskFailure(
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
