package io.pillarbox.testing

import scala.jdk.CollectionConverters._

import org.junit.platform.engine.TestExecutionResult
import org.junit.platform.engine.discovery.DiscoverySelectors.{selectClass, selectUniqueId}
import org.junit.platform.launcher.core.{LauncherDiscoveryRequestBuilder, LauncherFactory}
import org.junit.platform.launcher.{TestExecutionListener, TestIdentifier}
import org.scalatest.funsuite.AnyFunSuite

/**
 * Runs JUnit 5 classes, such as those in Flink's published test jars, so that each of their tests is one
 * here.
 *
 * A class without tests fails, since it would prove nothing.
 */
abstract class JUnitSuite extends AnyFunSuite {
  private val launcher = LauncherFactory.create()

  /** Registers the tests of `testClass`; `except` are names of methods that are left out. */
  protected def testsOf(testClass: Class[_], except: Set[String] = Set.empty): Unit = {
    val request = LauncherDiscoveryRequestBuilder.request.selectors(selectClass(testClass)).build()
    val plan = launcher.discover(request)
    val found = plan.getRoots.asScala.flatMap(plan.getDescendants(_).asScala).filter(_.isTest).toSeq
    test(s"${testClass.getSimpleName} has tests")(assert(found.nonEmpty))
    found.filterNot(id => except(methodOf(id))).foreach { id =>
      test(s"${testClass.getSimpleName}: ${methodOf(id)}")(run(id))
    }
  }

  private def methodOf(id: TestIdentifier): String = id.getDisplayName.takeWhile(_ != '(')

  private def run(id: TestIdentifier): Unit = {
    val request =
      LauncherDiscoveryRequestBuilder.request.selectors(selectUniqueId(id.getUniqueIdObject)).build()
    var results = Vector.empty[TestExecutionResult]
    launcher.execute(
      request,
      new TestExecutionListener {
        override def executionFinished(done: TestIdentifier, result: TestExecutionResult): Unit =
          if (done.isTest || result.getStatus != TestExecutionResult.Status.SUCCESSFUL) results :+= result
      }
    )
    results.flatMap(_.getThrowable.map[Seq[Throwable]](Seq(_)).orElse(Nil)).foreach(throw _)
    assert(results.nonEmpty, "the test did not run")
  }
}
