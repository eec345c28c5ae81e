package io.pillarbox.spark.task

import io.pillarbox.spark.base.FailureReport
import org.apache.spark.sql.pillarbox.UserException

private[pillarbox] object UserErrors {

  /** Makes an error of the user's code or data, which fails the task and keeps its message on the driver. */
  def failure(report: FailureReport, cause: Throwable = null): ReportedException =
    new ReportedException(report, cause)
}

/** An exception that fails a task, with the report that its message is made of. */
private[pillarbox] final class ReportedException(val report: FailureReport, cause: Throwable)
    extends UserException(report.condition, report.layout, cause)
