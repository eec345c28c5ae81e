package io.pillarbox.timer

import io.pillarbox.api.{Serializers, TimeDomain}
import io.pillarbox.state.StateRestoreException
import org.scalatest.funsuite.AnyFunSuite

/** Damaged and foreign files are refused by name, never read in part and believed. */
class TimerLogSuite extends AnyFunSuite {
  private def newTimers() = TimerFixture.ofLongs(TimerQueues.Heap)

  private val snapshot = {
    val timers = newTimers()
    for (key <- 0L until 5L) {
      timers.event(key, key * 3)
      timers.processing(key, key * 5)
    }
    timers.snapshot()
  }

  private def refused(bytes: Array[Byte]): StateRestoreException =
    intercept[StateRestoreException](newTimers().restore(bytes))

  test("a change of any single byte is noticed and the file named") {
    for (at <- snapshot.indices; flip <- Seq(1, 0x80)) {
      val damaged = snapshot.clone()
      damaged(at) = (damaged(at) ^ flip).toByte
      assert(refused(damaged).getMessage.contains("t.log"), s"byte $at")
    }
  }

  test("a file that ends too early is noticed, wherever it ends") {
    for (length <- snapshot.indices) {
      val failure = refused(snapshot.take(length))
      assert(failure.condition == "STATE_FILE_CORRUPT", s"length $length")
    }
  }

  test("another format version is told apart from damage") {
    val other = snapshot.clone()
    other(11) = 9
    assert(refused(other).condition == "STATE_FORMAT_UNKNOWN")
  }

  test("timers of another key type are refused") {
    val strings = new TimerFixture(TimerQueues.Heap, Serializers.ofString)
    val otherType = intercept[StateRestoreException](strings.restore(snapshot))
    assert(otherType.condition == "STATE_FILE_MISMATCH")
  }

  test("a write that fails leaves the changes uncommitted") {
    val timers = newTimers()
    timers.event(1, 10)
    assertThrows[java.io.IOException](timers.service.commit(FullDisk))
    val restored = newTimers()
    restored.restore(timers.commit())
    assert(restored.service.numTimers(TimeDomain.EVENT_TIME) == 1)
  }
}
