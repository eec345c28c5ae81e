package io.pillarbox.state.rocksdb.store

import java.util.concurrent.{Future, TimeUnit}

import io.pillarbox.mailbox.SystemProcessingTimeService

/**
 * Stops compaction where it could drop entries that a later batch may see: it goes by the machine's clock,
 * while the state's clock stands still during a batch, or as long as none begins. Any thread.
 *
 * @param behind the lag of the state's clock behind the machine's when the database was opened, in
 *   milliseconds, which its ages take into account
 * @param patience the further lag that is allowed, in milliseconds; compaction that has begun by then must
 *   end within as much again
 */
private[rocksdb] final class CompactionWatch(store: RocksDBStore, behind: Long, patience: Long)
    extends AutoCloseable {
  private var deadline = Long.MaxValue
  private var alarm: Future[_] = _

  /** Tells that no later batch has a time before this. */
  def timeIs(processingTime: Long): Unit = synchronized {
    deadline = processingTime + behind + patience
    watch()
  }

  private def watch(): Unit = {
    disarm()
    val left = deadline - System.currentTimeMillis
    store.allowExpiry(left > 0)
    if (left > 0)
      alarm = SystemProcessingTimeService.Scheduler.schedule(ring, left, TimeUnit.MILLISECONDS)
  }

  override def close(): Unit = synchronized(disarm())

  private def disarm(): Unit = {
    if (alarm != null) alarm.cancel(false)
    alarm = null
  }

  /** Stops by a thread of its own: the timer's must not wait for the disk. */
  private val ring: Runnable = () => {
    val thread = new Thread(() => onAlarm(), "pillarbox-compaction-watch")
    thread.setDaemon(true)
    thread.start()
  }

  /** The machine's clock may have been set back since the alarm was set, or an update or close came first. */
  private def onAlarm(): Unit = synchronized {
    if (alarm != null) watch()
  }
}
