package org.apache.spark.sql.pillarbox

import org.apache.spark.QueryContext
import org.apache.spark.api.python.PythonException

/**
 * Errors that PySpark raises as `PythonException` with their message alone, without the JVM's stack.
 *
 * Spark passes such an error from the task to the caller as it is only if it carries an error condition.
 */
object UserErrors {

  /**
   * An error that the user's code or data caused. Fails the task; the driver raises it with the same message.
   *
   * @param condition
   *   its name, in capitals
   */
  def failure(condition: String, message: String, cause: Throwable): RuntimeException =
    new PythonException(
      s"[$condition] $message",
      cause,
      Some(condition),
      Map("msg" -> message),
      Array.empty[QueryContext]
    )
}
