package io.pillarbox.operator

import io.pillarbox.timer.Timer

/**
 * Takes the rows and timers of a [[KeyedSchedule]] in the order in which each key has to see them: a
 * function, or frames for a function in another process. Mailbox thread only.
 *
 * The schedule's [[EventClock]] tells the times of what is given. A target answers at once, or later, at the
 * latest when it is settled. Order is promised for each key, not between keys.
 */
private[pillarbox] trait KeyedTarget[K, R] {

  /**
   * True if it fires timers by itself: those that are set by what it has been given, up to the horizon, and
   * between the rows of their key if keys have a time each; in a batch, all that a key has at its end.
   */
  def firesWithin: Boolean

  /** Takes a row of any key. */
  def takeRow(row: R, time: Long): Unit

  /**
   * Takes a row of a key that the order had to know. The key is valid as long as the row; in a batch, until
   * its end.
   */
  def takeRow(key: K, row: R, time: Long): Unit

  /**
   * Takes a timer, which is no longer registered.
   *
   * @param horizon no event up to this time is still to come, so timers that are set meanwhile and are due by
   *   then can fire
   */
  def takeTimer(timer: Timer[K], horizon: Long): Unit

  /** Begins a key of a batch, whose timers are those that it starts with. */
  def startKey(key: K): Unit

  /** Ends the rows of a key of a batch. Its state is dropped when its last timer has fired. */
  def endKey(key: K): Unit

  /**
   * Answers what was taken before anything else is given: rows, state and timers as they then are.
   *
   * @param horizon as for a timer
   */
  def settle(horizon: Long): Unit
}
