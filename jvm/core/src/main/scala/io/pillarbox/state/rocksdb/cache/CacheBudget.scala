package io.pillarbox.state.rocksdb.cache

import java.util.concurrent.atomic.AtomicLong

/**
 * Heap memory that the write-back caches of several backends share, beyond what each has alone: state that
 * fits into it is neither read from nor written to RocksDB between commits. First come, first served; a cache
 * gives its part back when it is full and empties itself, and when its backend is closed. Thread-safe.
 *
 * @param limit in bytes, for all caches together
 */
private[pillarbox] final class CacheBudget(val limit: Long) {
  private val taken = new AtomicLong

  def used: Long = taken.get

  /** Takes `bytes` if they are there; false otherwise, and nothing is taken. */
  def tryTake(bytes: Long): Boolean = {
    val now = taken.addAndGet(bytes)
    if (now > limit) taken.addAndGet(-bytes)
    now <= limit
  }

  def giveBack(bytes: Long): Unit = {
    taken.addAndGet(-bytes)
    ()
  }
}

private[pillarbox] object CacheBudget {

  /** For caches with their own memory only. */
  val None = new CacheBudget(0L)

  /** The budget of this process: a tenth of the heap's limit. */
  lazy val ofProcess: CacheBudget = new CacheBudget(Runtime.getRuntime.maxMemory / 10)
}
