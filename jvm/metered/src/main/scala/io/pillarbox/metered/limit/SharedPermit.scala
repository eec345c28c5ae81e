package io.pillarbox.metered.limit

import java.util.concurrent.atomic.{AtomicInteger, AtomicReference}

/**
 * The permit of one call for many attempts: given back when the last of them ends. An answer to one of them
 * is an answer to the call, if none fails, and what they have used is added up. They all have the start of
 * the first one that has ended. Any thread.
 */
private[pillarbox] final class SharedPermit(permit: Permit, attempts: Int)
    extends AtomicInteger(attempts)
    with Permit {
  @volatile private var hasFailed = false
  private val start = new AtomicReference[java.lang.Long]
  @volatile private var isAnswered = false
  private var reported: List[Int => Double] = Nil

  override def observe(startNanos: Long, error: Throwable): Unit = {
    start.compareAndSet(null, startNanos): Unit
    if (error ne null) {
      hasFailed = true
      permit.observe(start.get, error)
    } else isAnswered = true
  }

  override def used(amounts: Int => Double): Unit = synchronized { reported ::= amounts }

  override def told(unit: Int, said: Feedback): Unit = permit.told(unit, said)

  override def pause(nanos: Long): Unit = permit.pause(nanos)

  override def release(): Unit = if (decrementAndGet() == 0) {
    if (isAnswered && !hasFailed) permit.observe(start.get, null)
    val amounts = synchronized(reported)
    if (amounts.nonEmpty) permit.used { unit =>
      val ofUnit = amounts.map(_(unit)).filterNot(_.isNaN)
      if (ofUnit.isEmpty) Double.NaN else ofUnit.sum
    }
    permit.release()
  }
}
