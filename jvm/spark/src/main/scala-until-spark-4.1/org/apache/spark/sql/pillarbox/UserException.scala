package org.apache.spark.sql.pillarbox

import java.util.{Map => JMap}

import org.apache.spark.SparkThrowable
import org.apache.spark.api.python.PythonException

/**
 * An error that PySpark raises as `PythonException` with its message alone, without the JVM's stack.
 *
 * Spark passes such an error from the task to the caller as it is only if it carries an error condition.
 * PySpark looks for a cause that came by one of Spark's own Python nodes.
 */
abstract class UserException(condition: String, message: String, cause: Throwable)
    extends PythonException(message, UserException.ofSparkNode(message, cause))
    with SparkThrowable {
  override def getCondition: String = condition
  override def getErrorClass: String = condition
  override def getMessageParameters: JMap[String, String] = JMap.of("msg", message)
}

private object UserException {
  private val SparkNode =
    new StackTraceElement("org.apache.spark.sql.execution.python.pillarbox", "run", null, -1)

  private def ofSparkNode(message: String, cause: Throwable): PythonException = {
    val inner = new PythonException(message, cause)
    inner.setStackTrace(SparkNode +: inner.getStackTrace)
    inner
  }
}
