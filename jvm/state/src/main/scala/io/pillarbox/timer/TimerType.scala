package io.pillarbox.timer

import io.pillarbox.api.{TimeDomain, TypeSerializer}
import io.pillarbox.state.{KeyGroups, Namespace}

/** The common part of all timers in one queue. Each timer refers to it instead of repeating it. */
private[pillarbox] final class TimerType[K](
    val kind: TimeDomain,
    val keySerializer: TypeSerializer[K],
    val maxKeyGroups: Int
) {

  def newTimer(key: K, namespace: Namespace, timestamp: Long): Timer[K] =
    Timer(this, key, keySerializer.hash(key), namespace, timestamp)

  private[timer] def keyGroupOf(keyHash: Int): Int = KeyGroups.keyGroupOf(keyHash, maxKeyGroups)
}
