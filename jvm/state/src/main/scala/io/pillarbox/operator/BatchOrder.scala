package io.pillarbox.operator

import java.util.{ArrayDeque, ArrayList, Comparator}

import io.pillarbox.api.{TimeDomain, TypeSerializer}
import io.pillarbox.timer.{BatchExecutionInternalTimerService, Timer}

/**
 * Runs the rows of static data, which are sorted by key: one key after the other, each followed by its
 * timers, those that it started with among them. Keys that started with timers and have no rows come last.
 * Mailbox thread only.
 *
 * Rows see no watermark, and a timer its own time. With `ties` the rows of a key are sorted by time, and rows
 * and timers run as in [[TimeSortedOrder]]. At the end of a key no timer can be registered any more, since a
 * key that keeps registering would never end.
 *
 * @param keyOf the key of a row, valid as long as the row
 * @param ties the order of rows of one key and time, if the rows of a key are sorted by time
 * @param copyRow of a row that may be used again
 */
private[pillarbox] final class BatchOrder[K, R](
    rows: Rows[R],
    keyOf: R => K,
    keys: TypeSerializer[K],
    timers: BatchExecutionInternalTimerService[K],
    clock: EventClock,
    target: KeyedTarget[K, R],
    ties: Option[Comparator[R]] = None,
    copyRow: R => R = identity[R] _
) extends KeyedSchedule {
  private val tieOrder = ties.orNull
  private var key: K = _
  private var hasKey = false
  private var isEnding = false
  private var isFinished = false

  /** True if a row has come that the target has not taken. */
  private[operator] var hasRow = false

  /** The rows of the key that have one time, and that time. */
  private val here = new ArrayDeque[R]
  private var time = Long.MinValue

  override def step(): Boolean = {
    if (!here.isEmpty) takeHere()
    else if (isEnding) stepEnd()
    else {
      hasRow = hasRow || rows.advance()
      if (hasRow && !hasKey) start(keys.copy(keyOf(rows.row)))
      else if (hasRow && keys.equal(key, keyOf(rows.row))) stepRow()
      else if (hasKey) leaveRows()
      else if (timers.hasKeysToCome) start(timers.nextKeyToCome)
      else finish()
    }
    !isFinished
  }

  private def start(next: K): Unit = {
    key = next
    hasKey = true
    clock.advanceTo(Long.MinValue)
    timers.startKey(key)
    target.startKey(key)
  }

  private def stepRow(): Unit =
    if (tieOrder != null) stepTime()
    else {
      clock.recordTimestamp = rows.time
      target.takeRow(key, rows.row, rows.time)
      hasRow = false
    }

  /** Fires the timers before the time of the current row, then gives the rows of that time. */
  private def stepTime(): Unit = {
    val due = nextEventTime(KeyedSchedule.before(rows.time))
    if (due != null) fire(due)
    else {
      collectTies()
      takeHere()
    }
  }

  private def collectTies(): Unit = {
    val all = new ArrayList[R]
    time = rows.time
    while (hasRow && rows.time == time && keys.equal(key, keyOf(rows.row))) {
      all.add(copyRow(rows.row))
      hasRow = rows.advance()
    }
    all.sort(tieOrder)
    here.addAll(all)
  }

  private def takeHere(): Unit = {
    clock.watermark = KeyedSchedule.before(time)
    clock.recordTimestamp = time
    target.takeRow(key, here.poll(), time)
    clock.reached = math.max(clock.reached, time)
  }

  /** Fires the timers up to the time of the last row, then ends the key. */
  private def leaveRows(): Unit = {
    val due = if (tieOrder == null) null else nextEventTime(clock.reached)
    if (due != null) fire(due)
    else {
      isEnding = true
      timers.endKey()
    }
  }

  private def stepEnd(): Unit = {
    val timer = nextTimer()
    if (timer != null) fire(timer)
    else {
      target.endKey(key)
      isEnding = false
      hasKey = false
      timers.dropKey()
    }
  }

  private def nextTimer(): Timer[K] = {
    val timer = nextEventTime(Long.MaxValue)
    if (timer != null || target.firesWithin) timer
    else timers.pollDue(TimeDomain.PROCESSING_TIME, Long.MaxValue)
  }

  private def nextEventTime(until: Long): Timer[K] =
    if (target.firesWithin) null else timers.pollDue(TimeDomain.EVENT_TIME, until)

  private def fire(timer: Timer[K]): Unit = {
    val isEventTime = timer.kind == TimeDomain.EVENT_TIME
    if (isEventTime) clock.reached = math.max(clock.reached, timer.timestamp)
    clock.watermark = clock.reached
    clock.recordTimestamp = if (isEventTime) timer.timestamp else Output.NoTimestamp
    target.takeTimer(timer, KeyedSchedule.before(timer.timestamp))
  }

  private def finish(): Unit = {
    clock.advanceTo(Long.MinValue)
    target.settle(Long.MinValue)
    isFinished = true
  }
}
