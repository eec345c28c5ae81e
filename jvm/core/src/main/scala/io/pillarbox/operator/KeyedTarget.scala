package io.pillarbox.operator

import io.pillarbox.timer.Timer

/**
 * What a [[KeyedSchedule]] gives rows and timers to, in the order in which each key has to see them: a
 * function, or frames for a function elsewhere. Mailbox thread only.
 *
 * The schedule's [[EventClock]] tells the times of what is given. A target answers at once, or later, by
 * mail: it takes what there is room for and refuses the rest, which is offered again. Order is promised for
 * each key, not between keys.
 */
private[pillarbox] trait KeyedTarget[K, R] {

  /**
   * Whether it fires timers by itself: those that are set by what it has been given, up to the
   * horizon, between the rows of their key if keys have a time each; and all that a key of a batch has, at
   * its end.
   */
  def firesWithin: Boolean

  /**
   * Takes a row of whichever key.
   *
   * @return
   *   false if there is no room: nothing was taken
   */
  def tryRow(row: R, time: Long): Boolean

  /**
   * Takes a row of a key that the order had to know. The key is valid as long as the row; in a batch, until
   * its end.
   */
  def tryRow(key: K, row: R, time: Long): Boolean

  /**
   * Takes a timer, which is no longer registered.
   *
   * @param horizon no event up to this time is still to come, so timers that are set meanwhile and are due by
   *   then can fire
   */
  def tryTimer(timer: Timer[K], horizon: Long): Boolean

  /** In a batch: a key begins, whose timers are those that it starts with. */
  def startKey(key: K): Unit

  /** In a batch: no more rows of the key. What it keeps is dropped when its last timer has fired. */
  def tryEndKey(key: K): Boolean

  /**
   * What was taken is to be answered before anything else is given: rows, state and timers as they then are.
   *
   * @param horizon
   *   as for a timer
   */
  def settle(horizon: Long): Unit

  /** True if all that was taken is done with. */
  def isSettled: Boolean
}
