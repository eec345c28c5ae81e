package io.pillarbox.mailbox

import scala.collection.mutable

import org.junit.platform.engine.TestExecutionResult
import org.junit.platform.engine.discovery.DiscoverySelectors
import org.junit.platform.launcher.core.{LauncherDiscoveryRequestBuilder, LauncherFactory}
import org.junit.platform.launcher.{TestExecutionListener, TestIdentifier}
import org.scalatest.funsuite.AnyFunSuite

/** Flink 2.3's `TaskMailboxImplTest`, from Flink's published test jar, over our mailbox. */
class FlinkTaskMailboxSuite extends AnyFunSuite {
  private val testClass = "org.apache.flink.streaming.runtime.tasks.mailbox.PillarboxTaskMailboxTest"

  /**
   * Each of these puts urgent mail while a batch is handed out and expects it to overtake the batch without
   * bound, which is how urgent mail starves the rest (FLINK-39898). Ours waits for the end of the batch; that
   * it does so, and that it comes first afterwards, is tested in TaskMailboxSuite.
   */
  private val differsOnPurpose = Set(
    "testPutHighPriorityMailDuringTakingFromBatch",
    "testMailOrderWithBatch",
    "testOnlyOneUrgentMailAtTheSameTime"
  )

  private lazy val outcomes: Map[String, Seq[Option[Throwable]]] = {
    val results = mutable.Map.empty[String, Seq[Option[Throwable]]].withDefaultValue(Seq.empty)
    val listener = new TestExecutionListener {
      override def executionFinished(test: TestIdentifier, result: TestExecutionResult): Unit = if (
        test.isTest
      ) {
        val method = test.getLegacyReportingName.takeWhile(c => c != '(' && c != '[')
        val error = if (result.getThrowable.isPresent) Some(result.getThrowable.get) else None
        results(methodOf(test, method)) = results(methodOf(test, method)) :+ error
      }
    }
    val request =
      LauncherDiscoveryRequestBuilder.request().selectors(DiscoverySelectors.selectClass(testClass)).build()
    LauncherFactory.create().execute(request, listener)
    results.toMap
  }

  private def methodOf(test: TestIdentifier, fallback: String): String =
    "(?:method|test-template):([A-Za-z]+)".r
      .findFirstMatchIn(test.getUniqueId)
      .map(_.group(1))
      .getOrElse(fallback)

  test("Flink's tests of its mailbox pass over ours") {
    val expected = outcomes -- differsOnPurpose
    assert(expected.size == 13, s"Flink's test class was not run as a whole: ${outcomes.keys}")
    for ((name, runs) <- expected; failure <- runs.flatten) fail(s"$name: $failure", failure)
  }

  test("where ours differs on purpose, it is in the order of urgent mail only") {
    for (name <- differsOnPurpose) {
      assert(outcomes.contains(name), s"$name is no longer among Flink's tests")
      assert(outcomes(name).flatten.nonEmpty, s"$name passes now: take it off the list")
    }
  }
}
