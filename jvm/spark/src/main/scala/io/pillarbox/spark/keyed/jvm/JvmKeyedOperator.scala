package io.pillarbox.spark.keyed.jvm

import io.pillarbox.api.{KeyedProcessFunction, TimeDomain}
import io.pillarbox.operator.{FunctionStates, FunctionTarget, KeyedTarget}
import io.pillarbox.spark.keyed.{KeyedErrors, KeyedOperator, KeyedOperatorContext, KeyedOperatorFactory}
import io.pillarbox.spark.state.InitialTarget
import io.pillarbox.spark.task.UserClasses
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Runs a `KeyedProcessFunction[Row, Row, Row]` of the JVM, event by event and synchronously.
 *
 * The function is made and opened once for a partition in an executor, and kept across micro-batches.
 */
private[pillarbox] final class JvmKeyedOperator(className: String, options: Map[String, String])
    extends KeyedOperator {
  private var context: KeyedOperatorContext = _
  private var opened: OpenedFunction = _
  private var rows: KeyedTarget[UnsafeRow, UnsafeRow] = _

  override def open(context: KeyedOperatorContext): Unit = {
    this.context = context
    opened = context.kept match {
      case opened: OpenedFunction => opened
      case _ => openFunction()
    }
    rows = new FunctionErrors(
      new FunctionTarget(
        opened.function,
        opened.states,
        context.backend,
        context.timers,
        context.clock,
        new RowOutput(context),
        new RowView(context),
        if (opened.handlesTimers) None else Some(() => withoutOnTimer)
      ),
      context
    )
  }

  override def timerDomains: Set[TimeDomain] =
    if (opened.handlesTimers) TimeDomain.values.toSet else Set.empty

  override def initialTargets: Map[String, () => InitialTarget] =
    opened.initialTargets(context.spec.name, context.backend)

  override def usesEventTime: Boolean = opened.usesEventTime

  override def target: KeyedTarget[UnsafeRow, UnsafeRow] = rows

  override def close(): Unit = ()

  private def withoutOnTimer: RuntimeException = {
    val (name, parameters) =
      (context.spec.name, "long timestamp, OnTimerContext<Row> context, Collector<Row> out")
    KeyedErrors.named(
      "TIMER_WITHOUT_ON_TIMER",
      name,
      "operator" -> name,
      "did" -> "registered",
      "method" -> "onTimer",
      "instead" -> "",
      "definition" -> s"public void onTimer($parameters)"
    )
  }

  private def openFunction(): OpenedFunction = {
    val function = new UserClasses(context.spec.operator)
      .instantiate(className, options, classOf[KeyedProcessFunction[Row, Row, Row]])
    // It outlives the task, so it has nothing of the task's context.
    val states = new FunctionStates(context.spec.name, context.backend, RowView.keys(context.task.keySchema))
    val opened = new OpenedFunction(function, states)
    context.kept = opened
    FunctionErrors.opening(context.spec.operator)(function.open(states))
    opened.checkMapKeys(context.spec.name)
    opened
  }
}

private[pillarbox] object JvmKeyedOperator {

  /** Makes operators for a class on the executors' class path. */
  final case class Factory(className: String, options: Map[String, String]) extends KeyedOperatorFactory {
    override def form: String = "jvm"
    override def create(): KeyedOperator = new JvmKeyedOperator(className, options)
  }
}
