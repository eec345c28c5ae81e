package io.pillarbox.spark.async

import io.pillarbox.spark.functions._
import org.scalatest.funsuite.AnyFunSuite

class RowAsyncFunctionSuite extends AnyFunSuite {

  test("a function is made with its options") {
    assert(
      RowAsyncFunction.instantiate(classOf[Multiply].getName, Map("factor" -> "3")).isInstanceOf[Multiply]
    )
  }

  test("a function without options is made by its constructor without parameters") {
    assert(RowAsyncFunction.instantiate(classOf[Repeat].getName, Map.empty).isInstanceOf[Repeat])
  }

  test("a class that is not there is named, with what to do") {
    val message = refusal("com.acme.Missing")
    assert(message.contains("com.acme.Missing") && message.contains("spark.jars"))
  }

  test("a class that is no AsyncFunction is refused") {
    assert(
      refusal(classOf[NoFunction].getName).contains("does not implement io.pillarbox.async.AsyncFunction")
    )
  }

  test("a class without a fitting constructor is refused") {
    assert(refusal(classOf[NeedsNumber].getName).contains("java.util.Map"))
  }

  test("an exception of the constructor comes out as it is") {
    val error = intercept[IllegalStateException](
      RowAsyncFunction.instantiate(classOf[Refuses].getName, Map.empty)
    )
    assert(error.getMessage == "the url is missing")
  }

  private def refusal(className: String): String =
    intercept[IllegalArgumentException](RowAsyncFunction.instantiate(className, Map.empty)).getMessage
}
