package org.apache.spark.sql.pillarbox

import org.apache.spark.QueryContext
import org.apache.spark.api.python.PythonException

/** Errors that PySpark shows by their message alone, as `PythonException`, without the JVM's stack. */
object UserErrors {

  /** An error that the user's code or data caused. Fails the task; the driver sees the same message. */
  def failure(message: String, cause: Throwable): RuntimeException =
    new PythonException(message, cause, None, Map.empty[String, String], Array.empty[QueryContext])
}
