package io.pillarbox.spark.keyed.jvm

import io.pillarbox.api.TimeDomain
import io.pillarbox.operator.KeyedTarget
import io.pillarbox.spark.base.JvmExceptions
import io.pillarbox.spark.keyed.{KeyedErrors, KeyedOperatorContext}
import io.pillarbox.spark.task.{ReportedException, UserClasses}
import io.pillarbox.state.StateException
import io.pillarbox.timer.Timer
import org.apache.spark.TaskKilledException
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** Passes events to `function`, a target that calls a JVM function, and adds the event to its errors. */
private final class FunctionErrors(function: KeyedTarget[UnsafeRow, UnsafeRow], context: KeyedOperatorContext)
    extends KeyedTarget[UnsafeRow, UnsafeRow] {

  override def firesWithin: Boolean = function.firesWithin

  override def takeRow(row: UnsafeRow, time: Long): Unit =
    try function.takeRow(row, time)
    catch { case problem if FunctionErrors.isUsers(problem) => throw ofRow(row, problem) }

  override def takeRow(key: UnsafeRow, row: UnsafeRow, time: Long): Unit =
    try function.takeRow(key, row, time)
    catch { case problem if FunctionErrors.isUsers(problem) => throw ofRow(row, problem) }

  override def takeTimer(timer: Timer[UnsafeRow], horizon: Long): Unit =
    try function.takeTimer(timer, horizon)
    catch { case problem if FunctionErrors.isUsers(problem) => throw ofTimer(timer, problem) }

  override def startKey(key: UnsafeRow): Unit = function.startKey(key)

  override def endKey(key: UnsafeRow): Unit = function.endKey(key)

  override def settle(horizon: Long): Unit = function.settle(horizon)

  private def ofRow(row: UnsafeRow, problem: Throwable): RuntimeException =
    failed(Some(context.task.text.row(row, context.task.inputSchema)), None, problem)

  private def ofTimer(timer: Timer[UnsafeRow], problem: Throwable): RuntimeException = {
    val domain = if (timer.kind == TimeDomain.EVENT_TIME) "event" else "processing"
    failed(None, Some(s"${timer.timestamp} in $domain time"), problem)
  }

  private def failed(row: Option[String], timer: Option[String], problem: Throwable): RuntimeException = {
    val key = context.task.text.key(context.backend.currentKey, context.task.keySchema)
    KeyedErrors.callFailed(context.spec.name, key, row, timer, problem)
  }
}

private object FunctionErrors {

  /** Runs a user's `open` and reports its failure as such. A refused declaration keeps its own error. */
  def opening(operator: String)(open: => Unit): Unit =
    try open
    catch {
      case ours @ (_: StateException | _: ReportedException) => throw ours
      case problem if isUsers(problem) => throw UserClasses.openFailed(operator, problem)
    }

  /** True if an exception is the fault of the user's code, and no sign of the end of the task. */
  private def isUsers(problem: Throwable): Boolean =
    JvmExceptions.isOfCode(problem) && !problem.isInstanceOf[TaskKilledException]
}
