package io.pillarbox.timer

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}

import scala.collection.mutable

import io.pillarbox.api.{ScalaSerializers, TimeDomain, TypeSerializer}
import io.pillarbox.state.heap.HeapKeyedStateBackend
import io.pillarbox.state.{ManualClock, Namespace}

/** A timer service that is polled by hand, and what was polled. */
final class TimerFixture[K](
    queues: TimerQueues,
    keySerializer: TypeSerializer[K]
) {
  val fired = mutable.ArrayBuffer.empty[Timer[K]]
  var onTimer: Timer[K] => Unit = _ => ()
  val backend = new HeapKeyedStateBackend[K](keySerializer, new ManualClock)
  val service = new InternalTimerServiceImpl[K](backend, queues, trackChanges = true)

  def currentKey: K = backend.currentKey

  def currentKey_=(key: K): Unit = backend.setCurrentKey(key)

  /**
   * Fires the event-time timers up to `time`, each with its key current, also those that are registered by
   * that.
   */
  def advanceWatermark(time: Long): Unit = fireAll(TimeDomain.EVENT_TIME, time)

  /** The same of processing-time timers. */
  def moveClock(time: Long): Unit = fireAll(TimeDomain.PROCESSING_TIME, time)

  private def fireAll(kind: TimeDomain, time: Long): Unit =
    Iterator.continually(service.pollDue(kind, time)).takeWhile(_ != null).foreach { timer =>
      currentKey = timer.key
      fired += timer
      onTimer(timer)
    }

  def event(key: K, time: Long, namespace: Namespace = Namespace.Void): Unit = {
    currentKey = key
    service.register(TimeDomain.EVENT_TIME, namespace, time)
  }

  def processing(key: K, time: Long): Unit = {
    currentKey = key
    service.register(TimeDomain.PROCESSING_TIME, Namespace.Void, time)
  }

  def takeFired(): Seq[(K, Long)] = {
    val taken = fired.map(timer => (timer.key, timer.timestamp)).toVector
    fired.clear()
    taken
  }

  def snapshot(): Array[Byte] = written(service.snapshot(_))

  def commit(): Array[Byte] = written(service.commit(_))

  /** @param keeps true for the keys whose timers are taken; null for all */
  def restore(bytes: Array[Byte], keeps: K => Boolean = null): Unit =
    service.restore(new ByteArrayInputStream(bytes), "t.log", keeps)

  private def written(write: ByteArrayOutputStream => Unit): Array[Byte] = {
    val out = new ByteArrayOutputStream
    write(out)
    out.toByteArray
  }
}

object TimerFixture {
  def ofLongs(queues: TimerQueues): TimerFixture[Long] = new TimerFixture(queues, ScalaSerializers.long)
}
