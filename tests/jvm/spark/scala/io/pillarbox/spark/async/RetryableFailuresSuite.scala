package io.pillarbox.spark.async

import java.io.{Closeable, IOException}
import java.net.{ConnectException, SocketException}

import io.pillarbox.api.{AsyncTimeoutException, RetryAfter}
import io.pillarbox.spark.async.python.PythonCallException
import io.pillarbox.spark.base.FailureReport
import io.pillarbox.spark.task.ReportedException
import org.scalatest.funsuite.AnyFunSuite

class RetryableFailuresSuite extends AnyFunSuite {
  private def named(classes: Class[_]*) = new RetryableFailures(classes.map(_.getName).toSet)

  test("without names every exception is worth it") {
    assert(named().test(new IllegalStateException) && named().test(new OutOfMemoryError))
  }

  test("an exception counts by its class, those above it and their interfaces, and by no other") {
    val failure = new ConnectException("refused")
    Seq[Class[_]](
      classOf[ConnectException],
      classOf[SocketException],
      classOf[IOException],
      classOf[Throwable]
    )
      .foreach(cls => assert(named(cls).test(failure)))
    assert(named(classOf[java.io.Serializable]).test(failure))
    Seq[Class[_]](classOf[IllegalStateException], classOf[Closeable]).foreach(cls =>
      assert(!named(cls).test(failure))
    )
    assert(named(classOf[IllegalStateException], classOf[IOException]).test(failure))
  }

  test("an answer that does not fit is not worth another attempt") {
    val misfit =
      new ReportedException(FailureReport.of("JVM_RESULT_MISMATCH", "async_io(f)", "reason" -> "too long"))
    assert(!named().test(misfit))
    assert(!named(classOf[RuntimeException]).test(misfit))
  }

  test("deadlines, and exceptions that say when to come back, are always worth it; Python says so itself") {
    val other = named(classOf[IOException])
    assert(other.test(AsyncTimeoutException.attempt(1, 5)))
    assert(other.test(new IllegalStateException with RetryAfter { override def retryAfterMs: Long = 1 }))
    assert(other.test(new PythonCallException("ValueError", "", "", retryable = true)))
    assert(!named().test(new PythonCallException("ValueError", "", "", retryable = false)))
  }
}
