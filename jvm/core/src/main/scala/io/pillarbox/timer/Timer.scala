package io.pillarbox.timer

import io.pillarbox.queue.Prioritized
import io.pillarbox.state.Namespace

/**
 * A timer of a key: it fires once at its timestamp. Equal by kind, key, namespace and timestamp, where keys are equal
 * as their serializer has it.
 *
 * @param timestamp
 *   in milliseconds since 1970
 */
final class Timer[K] private[timer] (
    private[timer] val timerType: TimerType[K],
    val key: K,
    private[timer] val keyHash: Int,
    val namespace: Namespace,
    val timestamp: Long
) extends Prioritized {

  def kind: TimerKind = timerType.kind

  def keyGroup: Int = timerType.keyGroupOf(keyHash)

  override def priority: Long = timestamp

  /** The same timer with a key that shares nothing mutable with this one's; itself if keys are immutable. */
  private[timer] def copied: Timer[K] = {
    val copy = timerType.keySerializer.copy(key)
    if (copy.asInstanceOf[AnyRef] eq key.asInstanceOf[AnyRef]) this
    else new Timer(timerType, copy, keyHash, namespace, timestamp)
  }

  private[timer] def isOfKey(hash: Int, other: K): Boolean =
    keyHash == hash && timerType.keySerializer.equal(key, other)

  override def equals(other: Any): Boolean = other match {
    case that: Timer[_] =>
      timestamp == that.timestamp && (kind eq that.kind) && namespace == that.namespace &&
      isOfKey(that.keyHash, that.key.asInstanceOf[K])
    case _ => false
  }

  override def hashCode: Int =
    (keyHash * 31 + java.lang.Long.hashCode(timestamp)) * 31 + namespace.hashCode

  override def toString: String = s"$kind timer of key $key at $timestamp" +
    (if (namespace.isVoid) "" else s" in namespace $namespace")
}
