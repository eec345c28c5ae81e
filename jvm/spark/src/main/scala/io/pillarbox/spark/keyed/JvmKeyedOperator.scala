package io.pillarbox.spark.keyed

import io.pillarbox.operator.{FunctionStates, FunctionTarget, KeyedProcessFunction, KeyedTarget}
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Runs a `KeyedProcessFunction[Row, Row, Row]` of the JVM: row by row, timer by timer, at once.
 *
 * The function is made and opened once for a partition in an executor, and kept across micro-batches.
 */
final class JvmKeyedOperator(className: String, options: Map[String, String]) extends KeyedOperator {
  private var context: KeyedOperatorContext = _
  private var opened: OpenedFunction = _
  private var rows: KeyedTarget[UnsafeRow, UnsafeRow] = _

  override def open(context: KeyedOperatorContext): Unit = {
    this.context = context
    opened = context.kept match {
      case opened: OpenedFunction => opened
      case _ => openFunction()
    }
    rows = new FunctionTarget(
      opened.function,
      opened.states,
      context.backend,
      context.timers,
      context.clock,
      new RowOutput(context),
      new RowView(context)
    )
  }

  override def initialTargets: Map[String, () => InitialTarget] = opened.initialTargets(context.spec.name)

  override def target: KeyedTarget[UnsafeRow, UnsafeRow] = rows

  override def close(): Unit = ()

  private def openFunction(): OpenedFunction = {
    val function = JvmKeyedOperator.instantiate(className, options)
    val states = new FunctionStates(context.backend)
    val opened = new OpenedFunction(function, states)
    context.kept = opened
    function.open(states)
    opened
  }
}

object JvmKeyedOperator {

  /** Makes operators for a class on the executors' class path. */
  final case class Factory(className: String, options: Map[String, String]) extends KeyedOperatorFactory {
    override def form: String = "jvm"
    override def create(): KeyedOperator = new JvmKeyedOperator(className, options)
  }

  /**
   * Makes the user's function: by its constructor that takes a `java.util.Map` of options, else by that without
   * parameters.
   *
   * @throws IllegalArgumentException
   *   if the class is not there, is no KeyedProcessFunction, or has neither constructor
   */
  def instantiate(className: String, options: Map[String, String]): KeyedProcessFunction[Row, Row, Row] =
    io.pillarbox.spark.UserClasses.instantiate(className, options) match {
      case function: KeyedProcessFunction[_, _, _] =>
        function.asInstanceOf[KeyedProcessFunction[Row, Row, Row]]
      case _ =>
        throw new IllegalArgumentException(
          s"$className does not extend io.pillarbox.operator.KeyedProcessFunction."
        )
    }
}
