package io.pillarbox.spark.async

import java.util.function.Predicate

import io.pillarbox.api.{AsyncTimeoutException, RetryAfter}
import io.pillarbox.spark.async.python.PythonCallException
import io.pillarbox.spark.task.ReportedException

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
    case other => classes.isEmpty || namesOf(other.getClass).exists(classes)
  }

  private def namesOf(cls: Class[_]): Iterator[String] =
    Iterator.iterate[Class[_]](cls)(_.getSuperclass).takeWhile(_ != null).flatMap { level =>
      Iterator(level.getName) ++ level.getInterfaces.iterator.flatMap(namesOf)
    }
}
