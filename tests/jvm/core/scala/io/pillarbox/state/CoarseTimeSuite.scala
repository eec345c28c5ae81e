package io.pillarbox.state

import org.scalatest.funsuite.AnyFunSuite

class CoarseTimeSuite extends AnyFunSuite {

  /** Generous, since a busy machine may not schedule the ticker for long. */
  private val LimitNanos = 30L * 1000 * 1000 * 1000

  private def waitUntil(what: String)(condition: => Boolean): Unit = {
    val deadline = System.nanoTime() + LimitNanos
    while (!condition && System.nanoTime() < deadline) Thread.onSpinWait()
    assert(condition, what)
  }

  test("the time goes on and is never ahead of the system's") {
    val first = CoarseTime.millis()
    waitUntil("it goes on")(CoarseTime.millis() > first)
    for (_ <- 1 to 1000) {
      val coarse = CoarseTime.millis()
      assert(coarse <= System.currentTimeMillis())
    }
  }

  test("when nobody asks the ticker sleeps, and the next to ask gets the time of now") {
    waitUntil("it sleeps")(CoarseTime.isAsleep)
    val before = System.currentTimeMillis()
    assert(CoarseTime.millis() >= before)
    waitUntil("it is awake again")({ CoarseTime.millis(); !CoarseTime.isAsleep })
  }
}
