package io.pillarbox.spark.keyed

import scala.annotation.unused

import io.pillarbox.api.TimeDomain
import io.pillarbox.operator.KeyedTarget
import io.pillarbox.spark.state.InitialTarget
import io.pillarbox.spark.worker.WorkerCalls
import org.apache.spark.sql.catalyst.expressions.{Expression, UnsafeRow}

/**
 * One form of keyed process functions (a class of the JVM, SQL expressions, a Python function) that runs for
 * one partition, for one micro-batch or one task of a batch. Mailbox thread only.
 *
 * After `open`, its [[target]] gets rows and timers in the order that `core` has for them, and refuses none;
 * `close` comes last. When the order is done, rows must have been collected, state and timers changed: the
 * commit follows.
 */
private[pillarbox] trait KeyedOperator {

  /** Registers the operator's states and gets ready. May block. There is no current key. */
  def open(context: KeyedOperatorContext): Unit

  /** The targets of initial values, by the names of the states. After `open`. */
  def initialTargets: Map[String, () => InitialTarget]

  /** The time domains of the timers that the function handles. After `open`. */
  def timerDomains: Set[TimeDomain]

  /** The states that are timers as well, with their time domains. After `open`. */
  def timerStates: Map[String, TimeDomain] = Map.empty

  /** The receiver of rows and timers. After `open`. */
  def target: KeyedTarget[UnsafeRow, UnsafeRow]

  /** True if the function has timers or a TTL that may go by event time. After `open`. */
  def usesEventTime: Boolean

  /** Frees the task's resources. Called once, also after a failure. */
  def close(): Unit

  /** Wakes the task's thread when the task is killed while that thread can't be reached. Any thread. */
  def abort(): Unit = ()
}

/** Makes the operator of a task; travels from the driver to the executors. */
private[pillarbox] trait KeyedOperatorFactory extends Serializable {

  /** The form of the function for `explain()`: "row", "arrow", "jvm" or "scan". */
  def form: String

  /**
   * The expressions that the operator computes from rows and state. Spark's optimizer works on them with the
   * rest of the query: it puts a micro-batch's time in the place of the current time, and replaces those that
   * no task can evaluate.
   */
  def expressions: Seq[Expression] = Nil

  /** Returns the factory with the optimized [[expressions]], in their order. */
  def withExpressions(optimized: Seq[Expression]): KeyedOperatorFactory = this

  /** Returns the factory with the files of the session that the current job belongs to. On the driver. */
  def ofCurrentJob: KeyedOperatorFactory = this

  /** Returns the factory with what calls of its workers need in the current job. On the driver. */
  def withCalls(@unused calls: WorkerCalls.Factory): KeyedOperatorFactory = this

  /** True if the function runs in Python workers. */
  def runsPython: Boolean = false

  def create(): KeyedOperator
}
