package io.pillarbox.queue

import io.pillarbox.state.KeyGroupRange

/** Refuses key groups that are not of this partition. */
private[queue] object KeyGroupCheck {

  def check(keyGroup: Int, range: KeyGroupRange, what: Any): Unit =
    if (!range.contains(keyGroup)) refuse(keyGroup, range, what)

  def refuse(keyGroup: Int, range: KeyGroupRange, what: Any): Nothing = throw new IllegalArgumentException(
    s"Key group $keyGroup ($what) is outside of this partition's key groups $range: " +
      "the key was sent to the wrong partition, or its hash changed"
  )
}
