package io.pillarbox.spark.async

import java.util.function.Predicate

import scala.jdk.CollectionConverters._

import io.pillarbox.api.{AsyncTimeoutException, RetryAfter}
import io.pillarbox.spark.async.python.PythonCallException
import io.pillarbox.spark.task.ReportedException
import org.apache.commons.lang3.ClassUtils

/**
 * Tells which failures are worth another attempt. The Python worker decides for its own; of the JVM's
 * exceptions it is those that are, or derive from, one of the named classes. A deadline of an attempt always
 * is, and so is an exception that says when to come back; an invalid answer never is.
 *
 * @param classes full names; none named: every exception
 */
private final class RetryableFailures(classes: Set[String]) extends Predicate[Throwable] {

  override def test(failure: Throwable): Boolean = failure match {
    case call: PythonCallException => call.retryable
    case _: AsyncTimeoutException | _: RetryAfter => true
    case _: ReportedException => false
    case other =>
      val types = ClassUtils.hierarchy(other.getClass, ClassUtils.Interfaces.INCLUDE).asScala
      classes.isEmpty || types.exists(one => classes(one.getName))
  }
}
