package io.pillarbox.spark.base

import scala.util.Try
import scala.util.control.NonFatal

import io.pillarbox.async.retry.FutureWrappers.unwrapped

/** Describes a user's JVM exceptions for messages. Works even if their own methods throw. */
private[pillarbox] object JvmExceptions {
  private final val LongestMessage = 10000
  private final val LongestTrace = 10

  /**
   * True if the code that threw it is to blame, and the JVM can go on. A class that is missing or of another
   * version than it was compiled against is as much a fault of the code as any exception.
   */
  def isOfCode(problem: Throwable): Boolean = NonFatal(problem) || problem.isInstanceOf[LinkageError]

  /** The name of the class without its package. */
  def kindOf(problem: Throwable): String = {
    val cls = unwrapped(problem).getClass
    if (cls.getSimpleName.nonEmpty) cls.getSimpleName else cls.getName.split('.').last
  }

  /** The message, or the class if there is none. Long ones are cut. */
  def messageOf(problem: Throwable): String = {
    val message = Try(unwrapped(problem).getMessage).toOption.filter(text => text != null && text.nonEmpty)
    message.fold(kindOf(problem))(text =>
      if (text.length <= LongestMessage) text else s"${text.take(LongestMessage)}…"
    )
  }

  /** The exception with the top of its stack. */
  def traceOf(problem: Throwable): String = {
    val thrown = unwrapped(problem)
    val frames = thrown.getStackTrace.take(LongestTrace).map(frame => s"\n  at $frame")
    s"${thrown.getClass.getName}: ${messageOf(thrown)}${frames.mkString}"
  }
}
