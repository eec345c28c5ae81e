package io.pillarbox.testing

import java.io.{ByteArrayOutputStream, PrintStream}
import java.util.concurrent.{CountDownLatch, TimeUnit}

import org.scalatest.events.{Ordinal, TestStarting, TestSucceeded}
import org.scalatest.funsuite.AnyFunSuite

class HangReporterSuite extends AnyFunSuite {
  private val ordinal = new Ordinal(1)

  private def starting(thread: String) =
    TestStarting(ordinal, "Suite", "suite", None, "waits", "waits", threadName = thread)

  test("a test that hangs is interrupted and shows its stack; if that ends nothing, the JVM is ended") {
    val bytes = new ByteArrayOutputStream
    val halted, interrupted = new CountDownLatch(1)
    val test = new Thread(() => waitsForEver(interrupted), "test that hangs")
    test.start()
    new HangReporter(50, new PrintStream(bytes), () => halted.countDown())(starting(test.getName))
    assert(interrupted.await(60, TimeUnit.SECONDS) && halted.await(60, TimeUnit.SECONDS))
    assert(bytes.toString.contains("The test hangs after 50 ms: suite, waits"))
    assert(bytes.toString.contains("HangReporterSuite.waitsForEver"))
  }

  private def waitsForEver(interrupted: CountDownLatch): Unit =
    try new CountDownLatch(1).await()
    catch { case _: InterruptedException => interrupted.countDown() }

  test("a test that has ended is left alone") {
    val bytes = new ByteArrayOutputStream
    val halted = new CountDownLatch(1)
    val reporter = new HangReporter(50, new PrintStream(bytes), () => halted.countDown())
    reporter(starting("nobody"))
    reporter(TestSucceeded(ordinal, "Suite", "suite", None, "waits", "waits", Vector.empty))
    assert(!halted.await(200, TimeUnit.MILLISECONDS) && bytes.toString.isEmpty)
  }
}
