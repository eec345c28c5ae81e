package io.pillarbox.state.rocksdb.store

import java.util.concurrent.{Future, TimeUnit}

import io.pillarbox.mailbox.SystemProcessingTimeService

/**
 * Stops compaction where it could drop what a batch still to come may see: it goes by the machine's clock,
 * while the time that state lives by stands still for as long as a batch takes, or nobody begins one. Any
 * thread.
 *
 * @param behind how far that time was behind the machine's when the database was opened, in milliseconds,
 *   which its ages take into account
 * @param patience how much further it may fall behind; what compaction has begun by then must end within as
 *   much again
 */
private[rocksdb] final class CompactionWatch(store: RocksDBStore, behind: Long, patience: Long)
    extends AutoCloseable {
  private var deadline = Long.MaxValue
  private var alarm: Future[_] = _

  /** No batch still to come has a time before this. */
  def timeIs(processingTime: Long): Unit = synchronized {
    deadline = processingTime + behind + patience
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

  /** The timer's thread must not wait for the disk. */
  private val ring: Runnable = () => {
    val thread = new Thread(() => stop(), "pillarbox-compaction-watch")
    thread.setDaemon(true)
    thread.start()
  }

  private def stop(): Unit = synchronized {
    if (System.currentTimeMillis >= deadline) store.allowExpiry(false)
  }
}
