package io.pillarbox.async

import java.util
import java.util.concurrent.atomic.AtomicInteger

import io.pillarbox.async.gate.{CallGate, Permit, PermitLine}
import io.pillarbox.mailbox.{MailboxExecutor, ProcessingTimeService, ProcessingTimer}

/**
 * Gathers elements that are called together, and lets each group wait for its one permit. Mailbox thread
 * only.
 *
 * An element that is decided while it waits is not called, and a group of such takes no permit.
 *
 * @param isTooLate
 *   whether an element needs no call any more
 * @param start
 *   starts the call for elements that all need it; if there is a gate, they have a permit together
 */
private[async] final class GroupLine[IN, OUT](
    batching: Batching,
    gate: CallGate,
    executor: MailboxExecutor,
    time: ProcessingTimeService,
    isTooLate: InFlightElement[IN, OUT] => Boolean,
    start: util.List[InFlightElement[IN, OUT]] => Unit
) {
  private type Group = util.ArrayList[InFlightElement[IN, OUT]]

  private val permits = new PermitLine[Group](gate, executor, isGone(_), group => startOf(group))
  private var gathering = new Group
  private val waited = new ProcessingTimer {
    override def onProcessingTime(timestampMs: Long): Unit = send()
  }

  /** Joins the group that gathers; it leaves with its last element, or after the wait of its first one. */
  def enter(element: InFlightElement[IN, OUT]): Unit = {
    gathering.add(element)
    if (gathering.size >= batching.size) dropDecided(gathering)
    if (gathering.size >= batching.size) send()
    else if (gathering.size == 1) time.schedule(waited, time.currentProcessingTime + batching.waitMs)
  }

  /** The group that gathers waits for no further element. */
  def send(): Unit = if (!gathering.isEmpty) {
    CallDriver.ignore(time.cancel(waited))
    val group = gathering
    gathering = new Group
    dropDecided(group)
    if (!group.isEmpty) permits.enter(group)
  }

  /** To be called when an element was decided while it waited. */
  def prune(): Unit = permits.prune()

  def close(): Unit = {
    CallDriver.ignore(time.cancel(waited))
    permits.close()
  }

  private def startOf(group: Group): Unit = {
    dropDecided(group)
    start(group)
  }

  private def dropDecided(group: Group): Unit =
    CallDriver.ignore(group.removeIf(isTooLate(_)))

  private def isGone(group: Group): Boolean = {
    dropDecided(group)
    group.isEmpty
  }
}

/**
 * The permit of one call for many attempts: given back when the last of them ends. An answer to one of them
 * is one to the call, if none fails. Any thread.
 */
private[async] final class SharedPermit(gate: CallGate, attempts: Int)
    extends AtomicInteger(attempts)
    with Permit {
  @volatile private var hasFailed = false
  @volatile private var startNanos = 0L
  @volatile private var isAnswered = false

  override def observe(startNanos: Long, error: Throwable): Unit =
    if (error ne null) {
      hasFailed = true
      gate.observe(startNanos, error)
    } else {
      this.startNanos = startNanos
      isAnswered = true
    }

  override def release(): Unit = if (decrementAndGet() == 0) {
    if (isAnswered && !hasFailed) gate.observe(startNanos, null)
    gate.release()
  }
}
