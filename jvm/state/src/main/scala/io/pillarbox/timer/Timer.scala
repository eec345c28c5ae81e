package io.pillarbox.timer

import io.pillarbox.api.{TimeDomain, TypeSerializer}
import io.pillarbox.queue.Prioritized
import io.pillarbox.state.Namespace

/**
 * A timer of a key: it fires once at its timestamp. Equal by kind, key, namespace and timestamp, where the
 * serializer compares keys.
 *
 * Almost all timers are in the void namespace, so it takes no field: an object of theirs is 32 bytes, half a
 * cache line.
 *
 * @param timestamp in milliseconds since 1970
 */
private[pillarbox] sealed class Timer[K] private[timer] (
    private[timer] final val timerType: TimerType[K],
    final val key: K,
    private[timer] final val keyHash: Int,
    final val timestamp: Long
) extends Prioritized {

  def namespace: Namespace = Namespace.Void

  final def kind: TimeDomain = timerType.kind

  /** The key group in a queue over a store, by the upper bits of the hash: groups stand in its order. */
  private[timer] final def keyGroup: Int = (keyHash ^ Int.MinValue) >>> TimerType.GroupShift

  override final def priority: Long = timestamp

  /** The same timer with a key that shares nothing mutable with this one's; itself if keys are immutable. */
  private[timer] final def copied: Timer[K] = {
    val copy = timerType.keySerializer.copy(key)
    if (copy.asInstanceOf[AnyRef] eq key.asInstanceOf[AnyRef]) this
    else Timer(timerType, copy, keyHash, namespace, timestamp)
  }

  private[timer] final def isOfKey(hash: Int, other: K): Boolean =
    keyHash == hash && timerType.keySerializer.equal(key, other)

  private[pillarbox] final def isOfKeyOf(other: Timer[K]): Boolean = isOfKey(other.keyHash, other.key)

  override final def equals(other: Any): Boolean = other match {
    case that: Timer[_] =>
      timestamp == that.timestamp && (kind eq that.kind) && namespace == that.namespace &&
      isOfKey(that.keyHash, that.key.asInstanceOf[K])
    case _ => false
  }

  override final def hashCode: Int =
    (keyHash * 31 + java.lang.Long.hashCode(timestamp)) * 31 + namespace.hashCode

  override final def toString: String = s"$kind timer of key $key at $timestamp" +
    (if (namespace.isVoid) "" else s" in namespace $namespace")
}

private final class NamespacedTimer[K](
    timerType: TimerType[K],
    key: K,
    keyHash: Int,
    override val namespace: Namespace,
    timestamp: Long
) extends Timer[K](timerType, key, keyHash, timestamp)

private[timer] object Timer {

  /** @param keyHash see [[TimerType.hashOf]] */
  def apply[K](
      timerType: TimerType[K],
      key: K,
      keyHash: Int,
      namespace: Namespace,
      timestamp: Long
  ): Timer[K] =
    if (namespace.isVoid) new Timer(timerType, key, keyHash, timestamp)
    else new NamespacedTimer(timerType, key, keyHash, namespace, timestamp)
}

/** The common part of all timers in one queue. Each timer refers to it instead of repeating it. */
private[pillarbox] final class TimerType[K](
    val kind: TimeDomain,
    val keySerializer: TypeSerializer[K]
) {

  def newTimer(key: K, namespace: Namespace, timestamp: Long): Timer[K] =
    Timer(this, key, TimerType.hashOf(keySerializer.hash(key)), namespace, timestamp)
}

private[timer] object TimerType {

  /** The number of key groups of a queue over a store. */
  final val KeyGroups = 128

  /** What a hash is shifted by to the right to be one of as many key groups. */
  final val GroupShift = 25

  /**
   * Mixes a key's stable hash with MurmurHash3's 32-bit finaliser (Austin Appleby, public domain), since the
   * hashes of small integers differ in their low bits only. Never changes: timers are stored with it.
   */
  def hashOf(hash: Int): Int = {
    var h = hash
    h = (h ^ (h >>> 16)) * 0x85ebca6b
    h = (h ^ (h >>> 13)) * 0xc2b2ae35
    h ^ (h >>> 16)
  }
}
