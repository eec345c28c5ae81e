package io.pillarbox.timer

import io.pillarbox.api.{InputView, OutputView}
import io.pillarbox.queue.{OrderPreserving, OrderPreservingSerializer}
import io.pillarbox.state.Namespace

/**
 * Timers as bytes that sort as [[TimerOrder]] does: timestamp, hash of the key, key, namespace to the end.
 * With the hash before the key, heap queues break ties in the same order without serialising keys.
 */
private[timer] final class TimerSerializer[K](timerType: TimerType[K])
    extends OrderPreservingSerializer[Timer[K]] {

  override def serialize(timer: Timer[K], out: OutputView): Unit = {
    OrderPreserving.writeLong(timer.timestamp, out)
    OrderPreserving.writeInt(timer.keyHash, out)
    writeTarget(timer, out)
  }

  /** The key and the namespace break a tie of time and hash. */
  def writeTarget(timer: Timer[K], out: OutputView): Unit = {
    timerType.keySerializer.serialize(timer.key, out)
    if (!timer.namespace.isVoid) out.writeBytes(timer.namespace.toBytes)
  }

  override def deserialize(in: InputView): Timer[K] = {
    val timestamp = OrderPreserving.readLong(in)
    val keyHash = OrderPreserving.readInt(in)
    val key = timerType.keySerializer.deserialize(in)
    val namespace = if (in.remaining == 0) Namespace.Void else Namespace.of(in.readBytes(in.remaining))
    Timer(timerType, key, keyHash, namespace, timestamp)
  }
}
