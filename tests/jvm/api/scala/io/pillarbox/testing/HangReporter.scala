package io.pillarbox.testing

import java.io.PrintStream
import java.util.concurrent.{ConcurrentHashMap, Executors, ScheduledFuture, TimeUnit}

import scala.jdk.CollectionConverters._

import org.scalatest.Reporter
import org.scalatest.events.{Event, TestCanceled, TestFailed, TestPending, TestStarting, TestSucceeded}

/**
 * Ends a test that hangs: after its time it shows the stacks of all threads, and interrupts the test's own.
 * If the test has not ended after as long again, it ends the JVM.
 */
final class HangReporter(limitMs: Long, err: PrintStream, halt: () => Unit) extends Reporter {
  private type Test = (String, String)
  private val running = new ConcurrentHashMap[Test, ScheduledFuture[_]]
  private val timer = Executors.newSingleThreadScheduledExecutor { work =>
    val thread = new Thread(work, "hanging tests")
    thread.setDaemon(true)
    thread
  }

  /** For ScalaTest, which makes it. */
  def this() = this(TimeUnit.MINUTES.toMillis(10), System.err, () => Runtime.getRuntime.halt(3))

  override def apply(event: Event): Unit = event match {
    case one: TestStarting => starts((one.suiteId, one.testName), one.threadName)
    case one: TestSucceeded => ends((one.suiteId, one.testName))
    case one: TestFailed => ends((one.suiteId, one.testName))
    case one: TestCanceled => ends((one.suiteId, one.testName))
    case one: TestPending => ends((one.suiteId, one.testName))
    case _ => ()
  }

  private def starts(test: Test, thread: String): Unit =
    running.put(test, after(() => isLate(test, thread))): Unit

  private def ends(test: Test): Unit = Option(running.remove(test)).foreach(_.cancel(false))

  private def after(work: Runnable) = timer.schedule(work, limitMs, TimeUnit.MILLISECONDS)

  private def isLate(test: Test, thread: String): Unit = {
    err.println(s"The test hangs after $limitMs ms: ${test._1}, ${test._2}")
    val stacks = Thread.getAllStackTraces.asScala
    stacks.foreach { case (one, stack) => err.println(stack.mkString(s"$one\n  at ", "\n  at ", "")) }
    running.replace(test, after(() => halt()))
    stacks.keys.filter(_.getName == thread).foreach(_.interrupt())
  }
}
