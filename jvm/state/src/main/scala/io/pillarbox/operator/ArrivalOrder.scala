package io.pillarbox.operator

import io.pillarbox.api.TimeDomain
import io.pillarbox.timer.{PolledTimerService, Timer}

/**
 * Runs a stream's rows as they come, under the watermark of the round before; then the timers, under the new
 * one. What a key sees depends on how the input was cut. Mailbox thread only.
 */
private[pillarbox] final class ArrivalOrder[K, R](
    rows: Rows[R],
    timers: PolledTimerService[K],
    clock: EventClock,
    target: KeyedTarget[K, R]
) extends StreamOrder[K, R](timers, clock, target) {

  override protected def stepRow(): Boolean = {
    val has = rows.advance()
    if (has) {
      // Set after `advance`, which may run mail of other operators.
      clock.recordTimestamp = rows.time
      target.takeRow(rows.row, rows.time)
    }
    has
  }

  override protected def leaveRows(watermark: Long): Unit =
    clock.advanceTo(math.max(clock.watermark, watermark))

  override protected def stepEventTime(watermark: Long): Boolean =
    fire(timers.pollDue(TimeDomain.EVENT_TIME, watermark))

  override protected def enter(timer: Timer[K]): Unit = ()
}
