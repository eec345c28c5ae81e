package io.pillarbox.async.gate

import java.util.concurrent.atomic.AtomicInteger

/**
 * The permit of one call for many attempts: given back when the last of them ends. An answer to one of them
 * is an answer to the call, if none fails. Any thread.
 */
private[async] final class SharedPermit(permit: Permit, attempts: Int)
    extends AtomicInteger(attempts)
    with Permit {
  @volatile private var hasFailed = false
  @volatile private var startNanos = 0L
  @volatile private var isAnswered = false

  override def observe(startNanos: Long, error: Throwable): Unit =
    if (error ne null) {
      hasFailed = true
      permit.observe(startNanos, error)
    } else {
      this.startNanos = startNanos
      isAnswered = true
    }

  override def release(): Unit = if (decrementAndGet() == 0) {
    if (isAnswered && !hasFailed) permit.observe(startNanos, null)
    permit.release()
  }
}
