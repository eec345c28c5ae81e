package org.apache.spark.sql.pillarbox

import org.apache.spark.QueryContext
import org.apache.spark.api.python.PythonException

/**
 * An error that PySpark raises as `PythonException` with its message alone, without the JVM's stack.
 *
 * Spark passes such an error from the task to the caller as it is only if it carries an error condition.
 */
abstract class UserException(condition: String, message: String, cause: Throwable)
    extends PythonException(message, cause, Some(condition), Map("msg" -> message), Array.empty[QueryContext])
