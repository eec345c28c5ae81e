package io.pillarbox.queue

import io.pillarbox.state.KeyGroupRange

/** The one wording of "this key group is not here". */
private[queue] object KeyGroupCheck {

  def check(keyGroup: Int, range: KeyGroupRange, what: Any): Unit =
    if (!range.contains(keyGroup)) refuse(keyGroup, range, what)

  def refuse(keyGroup: Int, range: KeyGroupRange, what: Any): Nothing = throw new IllegalArgumentException(
    s"Key group $keyGroup ($what) is outside of this partition's key groups $range: " +
      "the key was sent to the wrong partition, or its hash changed"
  )
}
