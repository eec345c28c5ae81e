package io.pillarbox.spark.task

import java.util.concurrent.atomic.AtomicInteger

import io.pillarbox.spark.LocalSpark
import org.apache.spark.TaskContext
import org.scalatest.funsuite.AnyFunSuite

class FailedCallsSuite extends AnyFunSuite with LocalSpark {
  import FailedCallsSuite._

  test("a process tells of a kind once, however many tasks see it, and again when a query starts again") {
    val context = spark.sparkContext
    def runTasks(start: String): Int = {
      context.setJobGroup(start, "as the run of a streaming query")
      context.parallelize(1 to 6, 3).foreach { i =>
        val calls = FailedCalls.of(TaskContext.get(), "async_io(told)")
        calls.attempt(if (i % 2 == 0) "Even" else "Odd") {
          told.incrementAndGet()
          "a text"
        }
      }
      told.get
    }
    try {
      assert(runTasks("one") == 2)
      assert(runTasks("one") == 2)
      assert(runTasks("two") == 4)
    } finally context.clearJobGroup()
  }
}

/** Tasks run in this JVM, but what they capture is serialized. */
object FailedCallsSuite {
  private val told = new AtomicInteger
}
