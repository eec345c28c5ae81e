package io.pillarbox.spark.task

import java.lang.reflect.InvocationTargetException
import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._

import io.pillarbox.spark.base.{FailureReport, JvmExceptions}

/**
 * Makes objects of classes that the user names.
 *
 * @param operator the operator that they are for, as messages name it
 */
private[pillarbox] final class UserClasses(operator: String) {

  /**
   * Makes an object by its public constructor with a `java.util.Map` of options, else without parameters.
   *
   * @throws org.apache.spark.api.python.PythonException
   *   if the class is not there (JVM_CLASS_NOT_FOUND), is no `wanted`, or has neither constructor
   *   (JVM_CLASS_UNSUITABLE), or the constructor throws (FUNCTION_OPEN_FAILED)
   */
  def instantiate[T](className: String, options: Map[String, String], wanted: Class[T]): T = {
    val cls = find(className)
    if (!wanted.isAssignableFrom(cls)) {
      val verb = if (wanted.isInterface) "implement" else "extend"
      throw unsuitable(className, s"does not $verb ${wanted.getName}", wanted)
    }
    try wanted.cast(construct(cls, options.asJava, wanted))
    catch {
      case thrown: InvocationTargetException => throw UserClasses.openFailed(operator, thrown.getCause)
      case _: InstantiationException => throw unsuitable(className, "is abstract", wanted)
      case _: IllegalAccessException => throw unsuitable(className, "is not public", wanted)
    }
  }

  private def find(className: String): Class[_] =
    try Class.forName(className, true, Thread.currentThread().getContextClassLoader)
    catch {
      case missing @ (_: ClassNotFoundException | _: NoClassDefFoundError) =>
        val needed = missing.getMessage.replace('/', '.')
        val through = if (needed == className) "" else s", which $className needs,"
        throw failure("JVM_CLASS_NOT_FOUND", "class_name" -> needed, "through" -> through)
    }

  private def construct(cls: Class[_], options: JMap[String, String], wanted: Class[_]): Any =
    cls.getConstructors
      .sortBy(-_.getParameterCount)
      .collectFirst {
        case c if c.getParameterTypes.sameElements(Array(classOf[JMap[_, _]])) => c.newInstance(options)
        case c if c.getParameterCount == 0 => c.newInstance()
      }
      .getOrElse(throw unsuitable(cls.getName, "has no such constructor", wanted))

  private def unsuitable(className: String, reason: String, wanted: Class[_]): RuntimeException =
    failure("JVM_CLASS_UNSUITABLE", "class_name" -> className, "reason" -> reason, "wanted" -> wanted.getName)

  private def failure(name: String, parameters: (String, Any)*): RuntimeException =
    new ReportedException(FailureReport.of(name, operator, parameters: _*))
}

private[pillarbox] object UserClasses {

  /** The error of a function that can't be made, or that threw `problem` in its `open`. */
  def openFailed(operator: String, problem: Throwable): RuntimeException = {
    val (kind, message) = (JvmExceptions.kindOf(problem), JvmExceptions.messageOf(problem))
    val parameters = Seq("kind" -> kind, "reason" -> message.stripSuffix("."))
    val report = FailureReport.of("FUNCTION_OPEN_FAILED", operator, parameters: _*)
    new ReportedException(
      report.copy(kind = kind, message = message, traceback = JvmExceptions.traceOf(problem))
    )
  }
}
