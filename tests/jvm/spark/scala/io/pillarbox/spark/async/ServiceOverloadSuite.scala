package io.pillarbox.spark.async

import java.util.concurrent.{CompletionException, ExecutionException}

import io.pillarbox.api.{AsyncTimeoutException, RetryAfter}
import io.pillarbox.metered.limit.Overload
import io.pillarbox.spark.async.python.{PythonCallException, PythonRetryAfterException}
import org.scalatest.funsuite.AnyFunSuite

/** Which exceptions say that a service was asked too much. */
class ServiceOverloadSuite extends AnyFunSuite {
  import ServiceOverloadSuite._

  private def pause(error: Throwable): Long = ServiceOverload.pauseMs(error)

  test("what says when to come back, and what came too late") {
    assert(pause(new ComeBack(30)) == 30 && pause(new ComeBack(-5)) == 0)
    assert(pause(new PythonRetryAfterException("RetryAfter", "", "", 70)) == 70)
    assert(pause(AsyncTimeoutException.attempt(1, 5)) == 0 && pause(AsyncTimeoutException.total(1, 5)) == 0)
  }

  test("a status of 429 or 503, by the names that clients give it, of the exception or its response") {
    for (code <- Seq(429, 503)) {
      val errors =
        Seq(
          new Status(code),
          new StatusCode(code),
          new WithResponse(code),
          new WithEnum(code),
          new Hidden(code)
        )
      errors.foreach(error => assert(pause(error) == 0, error.getClass))
      assert(pause(new CompletionException(new ExecutionException(new Status(code)))) == 0)
    }
  }

  test("other statuses and other exceptions say nothing, nor do those that can't be read") {
    val others = Seq(200, 404, 500, 502).flatMap(code => Seq(new Status(code), new WithResponse(code)))
    (others ++ Seq(new Broken, new IllegalStateException("429"), new WithResponse(0)))
      .foreach(error => assert(pause(error) == Overload.No))
  }

  test("an exception of which a method names a class that is not there says nothing") {
    val hidden = classOf[Response].getName
    val loader = new ClassLoader(getClass.getClassLoader) {
      override def loadClass(name: String, resolve: Boolean): Class[_] =
        if (name == hidden) throw new ClassNotFoundException(name)
        else if (name == classOf[WithResponse].getName) {
          val code = getResourceAsStream(name.replace('.', '/') + ".class").readAllBytes()
          Option(findLoadedClass(name)).getOrElse(defineClass(name, code, 0, code.length))
        } else super.loadClass(name, resolve)
    }
    val made = loader.loadClass(classOf[WithResponse].getName).getConstructor(classOf[Int])
    val error = made.newInstance(Int.box(429)).asInstanceOf[Exception]
    intercept[NoClassDefFoundError](error.getClass.getMethod("status"))
    assert(pause(error) == Overload.No && !ServiceOverload.isRateLimit(error))
  }

  test("of Python's exceptions the worker says so") {
    assert(pause(new PythonCallException("HTTPError", "", "", retryable = false, isOverload = true)) == 0)
    assert(pause(new PythonCallException("HTTPError", "503", "", retryable = true)) == Overload.No)
  }
}

object ServiceOverloadSuite {
  final class ComeBack(ms: Long) extends RuntimeException with RetryAfter {
    override def retryAfterMs: Long = ms
  }

  final class Status(code: Int) extends RuntimeException {
    def status: Int = code
  }

  final class StatusCode(code: Int) extends RuntimeException {
    def getStatusCode: Integer = code
  }

  final class Response(code: Int) {
    def statusCode(): Int = code
  }

  final class WithResponse(code: Int) extends RuntimeException {
    def response: Response = if (code == 0) null else new Response(code)
  }

  /** As an enumeration of statuses. */
  final class Named(code: Int) {
    def value: Int = code
  }

  final class WithEnum(code: Int) extends RuntimeException {
    def getStatus: Named = new Named(code)
  }

  private final class Hidden(code: Int) extends RuntimeException {
    def getStatus: Int = code
  }

  final class Broken extends RuntimeException {
    def status: Int = throw new IllegalStateException("no status")
  }
}
