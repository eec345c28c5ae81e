package io.pillarbox.async.journal

import java.util

/**
 * What an operator asks before it makes a call, and tells after it. Mailbox thread only.
 *
 * A method that throws fails the task.
 */
private[pillarbox] trait CallJournal[OUT] {

  /** The rows that were answered once, flushed or not, or null if there are none that still count. */
  def find(key: CallKey): util.Collection[OUT]

  /** A call is about to be made. Throws if its answer could not be kept. */
  def willCall(): Unit

  /**
   * The function answered the attempt of this number with these rows. They are safe, as far as the folder can
   * promise it, when `flush` returns.
   */
  def keep(key: CallKey, attempt: Int, rows: util.Collection[OUT]): Unit

  /** Before rows that were given to `keep` leave the operator. */
  def flush(): Unit
}
