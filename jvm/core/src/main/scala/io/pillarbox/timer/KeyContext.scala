package io.pillarbox.timer

/** Whose key timers are registered for, and made current before a timer fires. Mailbox thread. */
trait KeyContext[K] {
  def currentKey: K
  def setCurrentKey(key: K): Unit
}
