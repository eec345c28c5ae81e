package io.pillarbox.spark.task

import io.pillarbox.spark.base.FailureReport
import org.apache.spark.sql.pillarbox.UserException

/**
 * An error that the user's code or data caused, with the report that its message is made of. It fails the
 * task, and the driver raises it with the message that a reader there needs.
 */
private[pillarbox] final class ReportedException(val report: FailureReport, cause: Throwable = null)
    extends UserException(report.condition, report.errorText, cause) {
  override def getMessage: String = report.errorText
}
