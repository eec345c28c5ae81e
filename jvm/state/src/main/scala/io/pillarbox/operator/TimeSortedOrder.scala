package io.pillarbox.operator

import java.util.ArrayList

import io.pillarbox.api.TimeDomain
import io.pillarbox.timer.{PolledTimerService, Timer}

/**
 * Keeps a stream's rows until the watermark has reached them. Then they and the event-time timers run in the
 * order of time: all rows of a time t, which see t - 1; then the watermark is t, and the timers of the key up
 * to t fire. What a key sees depends on its rows alone, however the input was cut. Mailbox thread only.
 *
 * @param keyOf the key of a row, valid as long as the row
 */
private[pillarbox] final class TimeSortedOrder[K, R](
    rows: Rows[R],
    keyOf: R => K,
    waiting: WaitingRows[K, R],
    timers: PolledTimerService[K],
    clock: EventClock,
    target: KeyedTarget[K, R]
) extends StreamOrder[K, R](timers, clock, target) {

  /** The rows of one key and time, and how many of them the target has taken. */
  private var here = new ArrayList[R]
  private var taken = 0

  /** The timer that stands for these rows, or the first timer of their time. */
  private var head: Timer[K] = _

  override protected def stepRow(): Boolean = {
    val has = rows.advance()
    if (has) waiting.add(keyOf(rows.row), rows.row, rows.time)
    has
  }

  override protected def leaveRows(watermark: Long): Unit = ()

  override protected def stepEventTime(watermark: Long): Boolean =
    if (taken < here.size) takeRow()
    else {
      val next = timers.peekDue(TimeDomain.EVENT_TIME, watermark)
      if (next != null && !isHere(next)) {
        head = next
        here = waiting.take(next.key, next.timestamp)
        taken = 0
      } else if (next != null) {
        timers.pollDue(TimeDomain.EVENT_TIME, watermark)
        if (!WaitingRows.standsForRows(next)) fire(next): Unit
      }
      next != null
    }

  override protected def enter(timer: Timer[K]): Unit = {
    clock.reached = math.max(clock.reached, timer.timestamp)
    clock.watermark = clock.reached
  }

  private def takeRow(): Boolean = {
    val time = head.timestamp
    clock.watermark = KeyedSchedule.before(time)
    clock.recordTimestamp = time
    target.takeRow(head.key, here.get(taken), time)
    clock.reached = math.max(clock.reached, time)
    here.set(taken, null.asInstanceOf[R])
    taken += 1
    true
  }

  /** True if the rows of the timer's key and time have been taken out. */
  private def isHere(timer: Timer[K]): Boolean =
    head != null && head.timestamp == timer.timestamp && timer.isOfKeyOf(head)
}
