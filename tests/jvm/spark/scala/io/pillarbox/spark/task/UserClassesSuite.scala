package io.pillarbox.spark.task

import io.pillarbox.api.{AsyncFunction, KeyedProcessFunction}
import io.pillarbox.spark.functions.{Multiply, NeedsNumber, NoFunction, Refuses, Repeat}
import io.pillarbox.spark.keyed.Count
import org.apache.spark.SparkThrowable
import org.apache.spark.sql.Row
import org.scalatest.funsuite.AnyFunSuite

class UserClassesSuite extends AnyFunSuite {
  private val Async = classOf[AsyncFunction[Row, Row]]
  private val Keyed = classOf[KeyedProcessFunction[Row, Row, Row]]

  test("a function is made with its options") {
    val made = classes.instantiate(classOf[Multiply].getName, Map("factor" -> "3"), Async)
    assert(made.isInstanceOf[Multiply])
    assert(classes.instantiate(classOf[Count].getName, Map.empty, Keyed).isInstanceOf[Count])
  }

  test("a function without options is made by its constructor without parameters") {
    assert(classes.instantiate(classOf[Repeat].getName, Map.empty, Async).isInstanceOf[Repeat])
  }

  test("a class that is not there is named, with what to do") {
    val message = refusal("JVM_CLASS_NOT_FOUND", "com.acme.Missing", Async)
    assert(message.contains("op: The class com.acme.Missing is not on the executors' class path"))
    assert(message.contains("spark.jars"))
  }

  test("a class of another kind is refused, whatever its constructors") {
    for {
      name <- Seq(classOf[NoFunction].getName, "java.lang.String", "java.lang.Runnable")
      (wanted, verb) <- Seq(Async -> "implement", Keyed -> "extend")
    } {
      val message = refusal("JVM_CLASS_UNSUITABLE", name, wanted)
      assert(message.contains(s"op: The class $name does not $verb ${wanted.getName}"))
    }
    assert(refusal("JVM_CLASS_UNSUITABLE", classOf[Refuses].getName, Keyed).contains("does not extend"))
  }

  test("a class that can't be made is refused with what is missing") {
    def reason(cls: Class[_]) = refusal("JVM_CLASS_UNSUITABLE", cls.getName, Async)
    assert(reason(classOf[NeedsNumber]).contains("has no such constructor"))
    assert(reason(classOf[UserClassesSuite.Half]).contains("is abstract"))
  }

  test("an exception of the constructor is told with its class and message") {
    val message = refusal("FUNCTION_OPEN_FAILED", classOf[Refuses].getName, Async)
    assert(
      message.contains("op: The function failed in its constructor or in open with IllegalStateException: ")
    )
    assert(message.contains("the url is missing"))
  }

  private def classes = new UserClasses("op")

  private def refusal(condition: String, className: String, wanted: Class[_]): String =
    intercept[RuntimeException](classes.instantiate(className, Map.empty, wanted)) match {
      case named: SparkThrowable =>
        assert(named.getCondition == condition)
        named.getMessage
      case other => fail(other)
    }
}

object UserClassesSuite {
  abstract class Half extends AsyncFunction[Row, Row]
}
