package org.apache.spark.sql.pillarbox

import io.pillarbox.spark.base.FailureReport
import org.apache.spark.QueryContext
import org.apache.spark.api.python.PythonException

/**
 * Errors that PySpark raises as `PythonException` with their message alone, without the JVM's stack.
 *
 * Spark passes such an error from the task to the caller as it is only if it carries an error condition.
 */
object UserErrors {

  /** An error that the user's code or data caused. Fails the task; the driver raises it with the same message. */
  def failure(report: FailureReport, cause: Throwable = null): ReportedException =
    new ReportedException(report, report.layout, cause)
}

/** What fails a task, with the report that its message is made of. */
final class ReportedException(val report: FailureReport, message: String, cause: Throwable)
    extends PythonException(
      message,
      cause,
      Some(report.name),
      Map("msg" -> message),
      Array.empty[QueryContext]
    )
