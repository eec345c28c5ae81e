package io.pillarbox.timer

import java.util.{Arrays, Comparator}

import io.pillarbox.api.OutputView

/**
 * The fixed order of timers of one timestamp: hash of the key, bytes of key and namespace. It is
 * the same in every queue, in whatever order timers were registered, before and after a restart.
 */
private[timer] final class TimerOrder[K](timerType: TimerType[K]) extends Comparator[Timer[K]] {
  private val serializer = new TimerSerializer(timerType)
  private val one = new OutputView(64)
  private val other = new OutputView(64)

  override def compare(left: Timer[K], right: Timer[K]): Int =
    if (left.keyHash != right.keyHash) Integer.compare(left.keyHash, right.keyHash)
    else compareTargets(left, right)

  private def compareTargets(left: Timer[K], right: Timer[K]): Int = {
    write(left, one)
    write(right, other)
    Arrays.compareUnsigned(one.array, 0, one.length, other.array, 0, other.length)
  }

  private def write(timer: Timer[K], out: OutputView): Unit = {
    out.clear()
    serializer.writeTarget(timer, out)
  }
}
