package io.pillarbox.spark.async

import java.util.concurrent.{CompletionException, ExecutionException}
import java.util.function.Predicate

import scala.annotation.tailrec

import io.pillarbox.async.{AsyncTimeoutException, HasRetryDelay}
import io.pillarbox.spark.python.PythonCallException

/**
 * Which failures are worth another attempt. The Python worker says so itself; of the JVM's exceptions those that are, or
 * are derived from, one of the named classes. A deadline of an attempt always is, and so is an exception that says itself
 * when to come back.
 *
 * @param classes
 *   full names; none named: every exception
 */
final private class RetryableFailures(classes: Set[String]) extends Predicate[Throwable] {

  override def test(failure: Throwable): Boolean = failure match {
    case call: PythonCallException => call.retryable
    case _: AsyncTimeoutException | _: HasRetryDelay => true
    case other => classes.isEmpty || namesOf(RetryableFailures.unwrapped(other).getClass).exists(classes)
  }

  private def namesOf(cls: Class[_]): Iterator[String] =
    Iterator.iterate[Class[_]](cls)(_.getSuperclass).takeWhile(_ != null).flatMap { level =>
      Iterator(level.getName) ++ level.getInterfaces.iterator.flatMap(namesOf)
    }
}

private object RetryableFailures {

  /** What the JDK's futures wrap an exception in says nothing of it. */
  @tailrec private def unwrapped(failure: Throwable): Throwable = failure match {
    case wrapper @ (_: CompletionException | _: ExecutionException) if wrapper.getCause != null =>
      unwrapped(wrapper.getCause)
    case other => other
  }
}
