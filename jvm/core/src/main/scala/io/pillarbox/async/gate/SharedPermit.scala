package io.pillarbox.async.gate

import java.util.concurrent.atomic.AtomicInteger

/**
 * The permit of one call for many attempts: given back when the last of them ends. An answer to one of them
 * is an answer to the call, if none fails, and what they have used is added up. Any thread.
 */
private[async] final class SharedPermit(permit: Permit, attempts: Int)
    extends AtomicInteger(attempts)
    with Permit {
  @volatile private var hasFailed = false
  @volatile private var startNanos = 0L
  @volatile private var isAnswered = false
  private var reported: List[Int => Double] = Nil

  override def observe(startNanos: Long, error: Throwable): Unit =
    if (error ne null) {
      hasFailed = true
      permit.observe(startNanos, error)
    } else {
      this.startNanos = startNanos
      isAnswered = true
    }

  override def used(amounts: Int => Double): Unit = synchronized { reported ::= amounts }

  override def told(unit: Int, said: Told): Unit = permit.told(unit, said)

  override def pause(nanos: Long): Unit = permit.pause(nanos)

  override def release(): Unit = if (decrementAndGet() == 0) {
    if (isAnswered && !hasFailed) permit.observe(startNanos, null)
    val amounts = synchronized(reported)
    if (amounts.nonEmpty) permit.used { unit =>
      val ofUnit = amounts.map(_(unit)).filterNot(_.isNaN)
      if (ofUnit.isEmpty) Double.NaN else ofUnit.sum
    }
    permit.release()
  }
}
