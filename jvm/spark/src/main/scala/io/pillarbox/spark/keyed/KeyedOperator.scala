package io.pillarbox.spark.keyed

import io.pillarbox.operator.KeyedTarget
import io.pillarbox.spark.state.InitialTarget
import org.apache.spark.sql.catalyst.expressions.{Expression, UnsafeRow}

/**
 * One form of keyed process functions (a class of the JVM, SQL expressions, a Python function) at work on one
 * partition, for one micro-batch or one task of a batch. Mailbox thread only.
 *
 * It is opened, and its [[target]] given rows and timers in the order that `core` has for them; then it is
 * closed. What the target refuses is offered again, without spinning, when the operator calls
 * [[KeyedOperatorContext.resume]]. All answers must have been given, rows collected, state and timers
 * changed, when the order is done: what follows is the commit.
 */
private[pillarbox] trait KeyedOperator {

  /** Registers its states and gets ready; may block. There is no current key. */
  def open(context: KeyedOperatorContext): Unit

  /** Its states by name, each as what takes the values that a query starts with. After `open`. */
  def initialTargets: Map[String, () => InitialTarget]

  /** What rows and timers are given to. After `open`. */
  def target: KeyedTarget[UnsafeRow, UnsafeRow]

  /**
   * Frees what belongs to the task. Once, also after a failure; what was taken and is not answered is
   * dropped.
   */
  def close(): Unit

  /**
   * Called from another thread when the task is killed while its thread can't be reached: only wakes that up.
   */
  def abort(): Unit = ()
}

/** Makes the operator of a task; travels from the driver to the executors. */
private[pillarbox] trait KeyedOperatorFactory extends Serializable {

  /** How the function is called, for `explain()`: "row", "arrow", "jvm" or "scan". */
  def form: String

  /**
   * What its operator computes from rows and state, for Spark's optimizer to work on with the rest of the
   * query: it puts a micro-batch's time in the place of the current time, and replaces what no task can
   * evaluate.
   */
  def expressions: Seq[Expression] = Nil

  /** The same with what has become of [[expressions]], in their order. */
  def withExpressions(optimized: Seq[Expression]): KeyedOperatorFactory = this

  /** On the driver, when a job's tasks are made: with the files of the session that the job belongs to. */
  def ofCurrentJob: KeyedOperatorFactory = this

  /** Whether the function runs in Python workers. */
  def runsPython: Boolean = false

  def create(): KeyedOperator
}
