package io.pillarbox.timer

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}

import scala.collection.mutable

import io.pillarbox.mailbox.{MailboxExecutor, MailboxProcessor, ManualProcessingTimeService}
import io.pillarbox.state.serialization.{Serializers, TypeSerializer}
import io.pillarbox.state.{KeyGroupRange, Namespace}

/** A timer service with a hand-moved clock and a mailbox on the calling thread, which notes what fires. */
final class TimerFixture[K](
    queues: TimerQueues,
    keySerializer: TypeSerializer[K],
    range: KeyGroupRange = KeyGroupRange(0, TimerFixture.KeyGroups - 1),
    interruptible: Boolean = false
) extends KeyContext[K]
    with Triggerable[K] {
  private val mailbox = new MailboxProcessor(_ => ())
  val executor: MailboxExecutor = mailbox.mainMailboxExecutor
  val clock = new ManualProcessingTimeService(executor)
  val interruption: TimerInterruption =
    if (interruptible) TimerInterruption.of(executor) else TimerInterruption.Never
  val fired = mutable.ArrayBuffer.empty[Timer[K]]
  var onTimer: Timer[K] => Unit = _ => ()
  var currentKey: K = _

  val service = new InternalTimerServiceImpl[K](
    keySerializer,
    TimerFixture.KeyGroups,
    range,
    this,
    this,
    clock,
    queues,
    interruption,
    trackChanges = true
  )

  override def setCurrentKey(key: K): Unit = currentKey = key

  override def onEventTime(timer: Timer[K]): Unit = fire(timer)

  override def onProcessingTime(timer: Timer[K]): Unit = fire(timer)

  private def fire(timer: Timer[K]): Unit = {
    fired += timer
    onTimer(timer)
  }

  def event(key: K, time: Long, namespace: Namespace = Namespace.Void): Unit = {
    currentKey = key
    service.registerEventTimeTimer(namespace, time)
  }

  def processing(key: K, time: Long): Unit = {
    currentKey = key
    service.registerProcessingTimeTimer(Namespace.Void, time)
  }

  /** Runs all mail, also what it leads to. */
  def runMail(): Unit = executor.finish()

  def moveClock(time: Long): Unit = {
    clock.advanceTo(time)
    runMail()
  }

  def takeFired(): Seq[(K, Long)] = {
    val taken = fired.map(timer => (timer.key, timer.timestamp)).toVector
    fired.clear()
    taken
  }

  def snapshot(): Array[Byte] = written(service.snapshot(_))

  def commit(): Array[Byte] = written(service.commit(_))

  def restore(bytes: Array[Byte]): Unit = service.restore(new ByteArrayInputStream(bytes), "t.log")

  private def written(write: ByteArrayOutputStream => Unit): Array[Byte] = {
    val out = new ByteArrayOutputStream
    write(out)
    out.toByteArray
  }
}

object TimerFixture {
  val KeyGroups = 8

  def ofLongs(queues: TimerQueues): TimerFixture[Long] = new TimerFixture(queues, Serializers.long)
}
