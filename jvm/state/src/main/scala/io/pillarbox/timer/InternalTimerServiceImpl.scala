package io.pillarbox.timer

import java.io.{InputStream, OutputStream}

import io.pillarbox.api.TimeDomain
import io.pillarbox.queue.CloseableIterator
import io.pillarbox.state.{KeyedStateBackend, Namespace}

/**
 * Keeps the timers of one partition, in queues that can be written and restored. No timer fires by itself:
 * the owner polls those that are due. Mailbox thread only.
 *
 * @param backend the state beside them, whose current key is that of the timers
 * @param trackChanges true if [[commit]] can write the changes; costs a copy of each changed timer's bytes
 */
private[pillarbox] final class InternalTimerServiceImpl[K](
    backend: KeyedStateBackend[K],
    queues: TimerQueues = TimerQueues.Heap,
    trackChanges: Boolean = false
) extends PolledTimerService[K]
    with AutoCloseable {
  import backend.keySerializer

  private val eventTime = newStore(TimeDomain.EVENT_TIME)
  private val processingTime = newStore(TimeDomain.PROCESSING_TIME)
  private val stores = Seq(eventTime, processingTime)
  private val log = new TimerLog(keySerializer, stores)

  override def register(kind: TimeDomain, namespace: Namespace, time: Long): Unit =
    storeOf(kind).add(backend.currentKey, namespace, time): Unit

  override def delete(kind: TimeDomain, namespace: Namespace, time: Long): Unit =
    storeOf(kind).remove(backend.currentKey, namespace, time)

  override def timersOfCurrentKey(kind: TimeDomain): Seq[Timer[K]] =
    storeOf(kind).ofKey(backend.currentKey)

  override protected def peek(kind: TimeDomain): Timer[K] = storeOf(kind).peek()

  override protected def poll(kind: TimeDomain): Timer[K] = storeOf(kind).poll()

  /** The time of the next timer of the kind; `Long.MaxValue` if there is none. */
  def nextTimestamp(kind: TimeDomain): Long = storeOf(kind).nextTimestamp

  /** The number of timers of the kind; may have to count them in the store. */
  def numTimers(kind: TimeDomain): Int = storeOf(kind).size

  /** About the number of timers of both kinds: exact on the heap and where they are few. Costs little. */
  def estimatedTimers(): Long = eventTime.estimatedSize() + processingTime.estimatedSize()

  /** Calls `action` with a copy of every timer of the kind, in no order, its key being the current one. */
  def forEachTimer(kind: TimeDomain)(action: Timer[K] => Unit): Unit = {
    val timers: CloseableIterator[Timer[K]] = storeOf(kind).iterator
    try
      timers.foreach { timer =>
        val copy = timer.copied
        backend.setCurrentKey(copy.key)
        action(copy)
      }
    finally timers.close()
  }

  /** Writes all timers in the portable format, in no order. Flushes the stream, doesn't close it. */
  def snapshot(out: OutputStream): Unit = log.writeSnapshot(out)

  /**
   * Writes the timers registered and gone since the last commit or restore. If it throws, they stay
   * uncommitted.
   *
   * @throws UnsupportedOperationException if the service was made without tracking changes
   */
  def commit(out: OutputStream): Unit = {
    if (!trackChanges) {
      throw new UnsupportedOperationException(
        "This timer service keeps no changes: make it with trackChanges, or take a snapshot"
      )
    }
    log.writeChanges(out)
    stores.foreach(_.forgetChanges())
  }

  /**
   * Reads a snapshot, or a commit that follows the last read one.
   *
   * @param source names the file in errors
   * @param keeps true for the keys whose timers are taken; null for all
   * @throws io.pillarbox.state.StateRestoreException if it is damaged, of a newer format or another key type;
   *   the service must not be used then
   */
  def restore(in: InputStream, source: String, keeps: K => Boolean = null): Unit = {
    log.read(in, source, keeps)
    stores.foreach(_.forgetChanges())
  }

  /** Closes the files of changes. */
  override def close(): Unit =
    try eventTime.close()
    finally processingTime.close()

  /** Writes the changes that the queues hold to their store: call it before a checkpoint of the store. */
  def flush(): Unit = {
    eventTime.flush()
    processingTime.flush()
  }

  private def newStore(kind: TimeDomain): TimerStore[K] =
    new TimerStore(new TimerType(kind, keySerializer), queues, trackChanges)

  private def storeOf(kind: TimeDomain): TimerStore[K] = kind match {
    case TimeDomain.EVENT_TIME => eventTime
    case TimeDomain.PROCESSING_TIME => processingTime
  }
}
