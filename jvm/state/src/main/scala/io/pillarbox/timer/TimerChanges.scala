package io.pillarbox.timer

import java.util.HashMap

import io.pillarbox.api.OutputView
import io.pillarbox.state.rocksdb.cache.CacheBudget
import io.pillarbox.state.rocksdb.entries.BlindEntries
import io.pillarbox.state.rocksdb.store.RocksDBStore

/**
 * The timers of one kind that were registered and that went since the last commit, each with its last change.
 * Mailbox thread only.
 */
private[timer] abstract class TimerChanges[K](timerType: TimerType[K]) extends AutoCloseable {
  private val serializer = new TimerSerializer(timerType)
  private val output = new OutputView(64)

  def add(timer: Timer[K], isAdded: Boolean): Unit

  /** Hands over each timer once, in no order. */
  def forEach(action: TimerChange): Unit

  def clear(): Unit

  /** Returns the timer's bytes, valid until the next call. */
  protected final def bytesOf(timer: Timer[K]): OutputView = {
    output.clear()
    serializer.serialize(timer, output)
    output
  }
}

private[timer] trait TimerChange {

  /** Takes the timer's bytes, and tells if it is registered now. */
  def apply(bytes: Array[Byte], offset: Int, length: Int, isAdded: Boolean): Unit
}

/** Keeps changes in memory, beside the timers themselves. */
private[timer] final class HeapTimerChanges[K](timerType: TimerType[K]) extends TimerChanges[K](timerType) {
  private val changed = new HashMap[Timer[K], java.lang.Boolean]

  /** Copies a timer whose caller may change its key. */
  override def add(timer: Timer[K], isAdded: Boolean): Unit =
    changed.put(if (isAdded) timer else timer.copied, isAdded): Unit

  override def forEach(action: TimerChange): Unit = changed.forEach { (timer, isAdded) =>
    val bytes = bytesOf(timer)
    action(bytes.array, 0, bytes.length, isAdded)
  }

  override def clear(): Unit = changed.clear()

  override def close(): Unit = ()
}

/**
 * Keeps changes in the directory of a database as soon as they don't fit into `limitBytes`, so that the
 * memory for a commit is bounded however many change. Close it before the database.
 *
 * @param shared the budget for the memory that it takes beyond a little
 */
private[timer] final class StoredTimerChanges[K](
    timerType: TimerType[K],
    database: RocksDBStore,
    name: String,
    limitBytes: Int,
    shared: CacheBudget
) extends TimerChanges[K](timerType) {
  private val entries = BlindEntries.asChanges(database, limitBytes, name, shared)

  override def add(timer: Timer[K], isAdded: Boolean): Unit = {
    val bytes = bytesOf(timer)
    entries.set(bytes.array, bytes.length, isAdded)
  }

  override def forEach(action: TimerChange): Unit = entries.forEachChange { change =>
    action(change.bytes, change.keyOffset, change.keyLength, change.valueLength >= 0)
  }

  override def clear(): Unit = entries.forgetChanges()

  override def close(): Unit = entries.close()

  /** The bytes that wait in memory. */
  private[timer] def used: Long = entries.used

  private[timer] def isSpilled: Boolean = entries.isSpilled
}

private[timer] object StoredTimerChanges {

  /** Holds about 60,000 timers with short keys. */
  final val DefaultLimitBytes: Int = 4 << 20
}
