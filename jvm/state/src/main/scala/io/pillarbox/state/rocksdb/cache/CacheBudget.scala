package io.pillarbox.state.rocksdb.cache

import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

/**
 * Heap memory that the write-back caches of several backends share, beyond what each has alone: state that
 * fits into it is neither read from nor written to RocksDB between commits. First come, first served, until
 * one gets nothing: those with more than an equal share are full then. A cache gives its part back when it is
 * full and empties itself, and when its backend is closed. Thread-safe.
 *
 * @param limit in bytes, for all caches together
 */
private[pillarbox] final class CacheBudget(val limit: Long) {
  private val taken = new AtomicLong
  private val caches = new AtomicInteger
  @volatile private var isShort = false

  /** The most bytes that a cache may keep now. */
  def most: Long = if (isShort) limit / math.max(1, caches.get) else Long.MaxValue

  /** Counts one more cache that wants a part. */
  def join(): Unit = caches.incrementAndGet(): Unit

  /** Counts one cache less, which has no part any more. */
  def leave(): Unit = caches.decrementAndGet(): Unit

  def used: Long = taken.get

  /** Takes `bytes` if they are there; false otherwise, and nothing is taken. */
  def tryTake(bytes: Long): Boolean = {
    val now = taken.addAndGet(bytes)
    if (now > limit) {
      taken.addAndGet(-bytes)
      isShort = true
    }
    now <= limit
  }

  def giveBack(bytes: Long): Unit = {
    taken.addAndGet(-bytes)
    isShort = false
  }
}

private[pillarbox] object CacheBudget {

  /** For caches with their own memory only. */
  val None = new CacheBudget(0L)

  /** For caches that are bounded otherwise. */
  val Unlimited = new CacheBudget(Long.MaxValue)

  /** The budget of this process: a tenth of the heap's limit. */
  lazy val ofProcess: CacheBudget = new CacheBudget(Runtime.getRuntime.maxMemory / 10)
}
