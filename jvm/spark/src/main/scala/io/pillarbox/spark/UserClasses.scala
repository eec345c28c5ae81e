package io.pillarbox.spark

import java.lang.reflect.InvocationTargetException
import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._

/** A class that the user names is not there or does not fit; `condition` is the error's name. */
final class UserClassException(val condition: String, message: String)
    extends IllegalArgumentException(message)

/** Makes objects of classes that the user names. */
private[spark] object UserClasses {

  /**
   * By the public constructor that takes a `java.util.Map` of options, else by that without parameters.
   *
   * @throws UserClassException
   *   if the class is not there (JVM_CLASS_NOT_FOUND), or has neither constructor (JVM_CLASS_UNSUITABLE)
   */
  def instantiate(className: String, options: Map[String, String]): Any =
    try
      construct(Class.forName(className, true, Thread.currentThread().getContextClassLoader), options.asJava)
    catch {
      case _: ClassNotFoundException =>
        throw new UserClassException(
          "JVM_CLASS_NOT_FOUND",
          s"The class $className is not on the executors' class path: add its jar with spark.jars or --jars."
        )
      case thrown: InvocationTargetException => throw thrown.getCause
    }

  private def construct(cls: Class[_], options: JMap[String, String]): Any =
    cls.getConstructors
      .sortBy(-_.getParameterCount)
      .collectFirst {
        case c if c.getParameterTypes.sameElements(Array(classOf[JMap[_, _]])) => c.newInstance(options)
        case c if c.getParameterCount == 0 => c.newInstance()
      }
      .getOrElse(
        throw new UserClassException(
          "JVM_CLASS_UNSUITABLE",
          s"${cls.getName} needs a public constructor without parameters or one that takes a java.util.Map of options."
        )
      )
}
