package io.pillarbox.timer

import io.pillarbox.state.KeyedStateBackend

/** The key that timers are registered for. Mailbox thread. */
private[pillarbox] trait KeyContext[K] {
  def currentKey: K
  def setCurrentKey(key: K): Unit
}

private[pillarbox] object KeyContext {

  /** Returns the current key of state. */
  def of[K](backend: KeyedStateBackend[K]): KeyContext[K] = new KeyContext[K] {
    override def currentKey: K = backend.currentKey
    override def setCurrentKey(key: K): Unit = backend.setCurrentKey(key)
  }
}
