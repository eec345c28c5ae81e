package io.pillarbox.spark.base

import java.util.concurrent.{CompletionException, ExecutionException}

import scala.annotation.tailrec
import scala.util.Try

/**
 * A user's exceptions of the JVM in the words of messages. Whatever their methods do, these give an answer.
 */
private[pillarbox] object JvmExceptions {
  private final val LongestMessage = 10000
  private final val LongestTrace = 10

  /** What the JDK's futures wrap an exception in says nothing of it. */
  @tailrec def unwrapped(problem: Throwable): Throwable = problem match {
    case wrapper @ (_: CompletionException | _: ExecutionException) if wrapper.getCause != null =>
      unwrapped(wrapper.getCause)
    case other => other
  }

  /** The class's name without its package. */
  def kindOf(problem: Throwable): String = {
    val cls = unwrapped(problem).getClass
    if (cls.getSimpleName.nonEmpty) cls.getSimpleName else cls.getName.split('.').last
  }

  /** Its message, or its class where it has none. Long ones are cut. */
  def messageOf(problem: Throwable): String = {
    val message = Try(unwrapped(problem).getMessage).toOption.filter(text => text != null && text.nonEmpty)
    message.fold(kindOf(problem))(text =>
      if (text.length <= LongestMessage) text else s"${text.take(LongestMessage)}…"
    )
  }

  /** The exception and where it came from. */
  def traceOf(problem: Throwable): String = {
    val thrown = unwrapped(problem)
    val frames = thrown.getStackTrace.take(LongestTrace).map(frame => s"\n  at $frame")
    s"${thrown.getClass.getName}: ${messageOf(thrown)}${frames.mkString}"
  }
}
