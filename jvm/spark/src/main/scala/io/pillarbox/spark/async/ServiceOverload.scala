package io.pillarbox.spark.async

import scala.util.control.NonFatal

import io.pillarbox.api.AsyncTimeoutException
import io.pillarbox.async.retry.FutureWrappers
import io.pillarbox.metered.limit.Overload
import io.pillarbox.spark.async.python.PythonCallException

/**
 * Recognises an overloaded service: it said when to come back, it did not answer in time, or the status of
 * what was thrown is 429 (too many requests) or 503 (service unavailable). The Python worker reads the status
 * itself; of the JVM's exceptions it is the result of their methods of usual names, or of those of their
 * response.
 */
private[async] object ServiceOverload extends Overload {
  private val Overloaded = Set(429, 503)
  private val Statuses = Seq("status", "getStatus", "statusCode", "getStatusCode")
  private val Responses = Seq("response", "getResponse")

  override def pauseMs(error: Throwable): Long = FutureWrappers.unwrapped(error) match {
    case call: PythonCallException if call.isOverload => 0L
    case other =>
      val pause = Overload.Default.pauseMs(other)
      if (pause < 0 && !other.isInstanceOf[PythonCallException] && hasStatus(other)) 0L else pause
  }

  /** Tells if the service answered that it is to be asked later, which no timeout says. */
  def isRateLimit(error: Throwable): Boolean = FutureWrappers.unwrapped(error) match {
    case _: AsyncTimeoutException => false
    case other => pauseMs(other) >= 0
  }

  private def hasStatus(error: Throwable): Boolean =
    try statusOf(error).orElse(first(error, Responses).flatMap(statusOf)).exists(Overloaded)
    catch {
      case NonFatal(_) => false
      // Looking for a method loads the classes that others name.
      case _: LinkageError => false
    }

  private def statusOf(found: AnyRef): Option[Int] = first(found, Statuses).flatMap(numberOf)

  /** Reads a number, or an object that has one as its value, such as an enumeration of statuses. */
  private def numberOf(status: AnyRef): Option[Int] = status match {
    case number: Number => Some(number.intValue)
    case other => first(other, Seq("value")).collect { case number: Number => number.intValue }
  }

  private def first(target: AnyRef, names: Seq[String]): Option[AnyRef] =
    names.iterator.flatMap(call(target, _)).nextOption()

  private def call(target: AnyRef, name: String): Option[AnyRef] =
    try {
      val method = target.getClass.getMethod(name)
      method.setAccessible(true)
      Option(method.invoke(target))
    } catch { case NonFatal(_) => None }
}
