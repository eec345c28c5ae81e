package io.pillarbox.spark.keyed

import io.pillarbox.timer.Timer
import org.apache.spark.sql.catalyst.expressions.{Expression, UnsafeRow}

/**
 * One form of keyed process functions (a class of the JVM, SQL expressions, a Python function) at work on one
 * partition, for one micro-batch or one task of a batch. Mailbox thread only.
 *
 * It is fed in this order: `open`; then rows and timers, in the order in which each key has to see them; `flush`,
 * after which the driver waits until it is idle; `close`. Rows, then timers, then rows again may follow a `flush`.
 *
 * An operator may answer later, by mail: it takes what there is room for and refuses the rest. Whoever is refused
 * waits, without spinning, until the operator calls [[KeyedOperatorContext.resume]], and offers the same again. All
 * answers must have been given, rows collected, state and timers changed, before [[isIdle]]: what follows is the commit.
 *
 * In a batch (static data) the rows of a key follow each other, `tryEndKey` comes after the last one, and timers are
 * the operator's own business: `tryOnTimer` is not called.
 */
trait KeyedOperator {

  /** Registers its states and gets ready; may block. There is no current key. */
  def open(context: KeyedOperatorContext): Unit

  /** Its states by name, each as what takes the values that a query starts with. After `open`. */
  def initialTargets: Map[String, () => InitialTarget]

  /**
   * Processes a row, or begins to.
   *
   * @param row
   *   in the input schema; valid during the call only
   * @param timestamp
   *   in milliseconds since 1970, `Output.NoTimestamp` if the row has none
   * @return
   *   false if there is no room: nothing was taken
   */
  def tryProcessElement(row: UnsafeRow, timestamp: Long): Boolean

  /**
   * Fires a timer, which is no longer registered, or begins to. A key's earlier timers were given before; those that its
   * function registers meanwhile, and that are due, are given later.
   *
   * @return
   *   false if there is no room: nothing was taken
   */
  def tryOnTimer(timer: Timer[UnsafeRow]): Boolean

  /**
   * In a batch: no more rows of the key that came last. Fires all its timers, event time first, and drops its state.
   *
   * @return
   *   false if there is no room: nothing was done
   */
  def tryEndKey(): Boolean

  /** Nothing follows for now: what was taken must not wait for more. */
  def flush(): Unit

  /** Whether all that was taken is done with. */
  def isIdle: Boolean

  /** Frees what belongs to the task. Once, also after a failure; what was taken and is not answered is dropped. */
  def close(): Unit

  /** Called from another thread when the task is killed while its thread can't be reached: only wakes that up. */
  def abort(): Unit = ()
}

/** Makes the operator of a task; travels from the driver to the executors. */
trait KeyedOperatorFactory extends Serializable {

  /** How the function is called, for `explain()`: "row", "batch", "jvm" or "scan". */
  def form: String

  /**
   * What its operator computes from rows and state, for Spark's optimizer to work on with the rest of the query: it puts a
   * micro-batch's time in the place of the current time, and replaces what no task can evaluate.
   */
  def expressions: Seq[Expression] = Nil

  /** The same with what has become of [[expressions]], in their order. */
  def withExpressions(optimized: Seq[Expression]): KeyedOperatorFactory = this

  /** Whether the function runs in Python workers. */
  def runsPython: Boolean = false

  def create(): KeyedOperator
}
