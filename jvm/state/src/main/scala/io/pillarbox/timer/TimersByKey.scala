package io.pillarbox.timer

import java.util.{HashMap, LinkedHashSet}

import scala.jdk.CollectionConverters._

/** An index of timers in memory by their key, made when the timers of a key are asked for. */
private[timer] final class TimersByKey[K](existing: Iterator[Timer[K]]) {
  private val timers = new HashMap[KeyRef[K], LinkedHashSet[Timer[K]]]
  existing.foreach(add)

  def add(timer: Timer[K]): Unit =
    timers.computeIfAbsent(new KeyRef(timer), _ => new LinkedHashSet).add(timer)

  def remove(timer: Timer[K]): Unit = {
    val key = new KeyRef(timer)
    val ofKey = timers.get(key)
    if (ofKey != null && ofKey.remove(timer) && ofKey.isEmpty) timers.remove(key)
  }

  def isEmpty: Boolean = timers.isEmpty

  def anyKey: K = timers.values.iterator.next().iterator.next().key

  /** All timers of the key that `probe` has, in no order. */
  def of(probe: Timer[K]): Seq[Timer[K]] = {
    val ofKey = timers.get(new KeyRef(probe))
    if (ofKey == null) Nil else ofKey.asScala.toVector
  }
}

/** The key of a timer as a key of a hash map, compared by the serializer. */
private final class KeyRef[K](private val timer: Timer[K]) {
  override def hashCode: Int = timer.keyHash

  override def equals(other: Any): Boolean = other match {
    case that: KeyRef[_] => timer.isOfKey(that.timer.keyHash, that.timer.key.asInstanceOf[K])
    case _ => false
  }
}
