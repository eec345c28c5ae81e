package io.pillarbox.spark.async

import io.pillarbox.api.AsyncFunction
import io.pillarbox.async.{AsyncOptions, AsyncWaitOperator}
import io.pillarbox.metered.budget.BudgetPart
import io.pillarbox.spark.async.python.{CallChannel, PythonAsyncFunction, PythonChannel}
import io.pillarbox.spark.task.{FailedCalls, UserClasses}
import org.apache.spark.TaskContext
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow

/** The calls of one task, made by a Python worker, one by one or in groups, or by a class of the JVM. */
private sealed abstract class TaskCalls(task: AsyncIOTaskSpec) {

  /** Its parts, the last one first. */
  private var opened = List.empty[AutoCloseable]

  /** Opens a part, which is closed with the others. */
  protected final def opening[T <: AutoCloseable](part: => T): T = {
    val made = orClosed(part)
    opened ::= made
    made
  }

  /** Makes what needs no closing; closes what is open if that fails. */
  protected final def orClosed[T](part: => T): T =
    try part
    catch {
      case problem: Throwable =>
        close()
        throw problem
    }

  def function: AsyncFunction[InternalRow, InternalRow]

  /** The limits that a call passes before it starts. */
  def held: HeldLimits

  /** The answers that need no call. */
  val answers: Option[TaskJournal] = task.site.journal.map(folder => opening(new TaskJournal(task, folder)))

  /** The tickets of calls that are answered later. */
  val tickets: Option[TaskTickets] = for {
    _ <- task.spec.ticketed
    folder <- task.site.journal
  } yield opening(new TaskTickets(task, folder))

  private val heldBudget: Option[HeldBudget] = for {
    budget <- task.spec.budget
    key <- task.site.budgetKey
  } yield opening(Lending.ofProcess.hold(key, budget.terms))

  /** The budget that its calls are counted in. */
  final def budget: Option[BudgetPart] = heldBudget.map(_.part)

  /** Changes the options of the operator as its function needs it. */
  def adapted(options: AsyncOptions[InternalRow, InternalRow]): AsyncOptions[InternalRow, InternalRow] =
    options

  /** The calls that the limit allows this task at a time now; 0 without a limit. */
  def limitShare: Long = held.limitShare

  /** Tells the function where answers go. Before it is opened. */
  def connect(operator: AsyncWaitOperator[InternalRow, InternalRow]): Unit

  /** Ends a wait for the worker. Any thread. */
  def abort(): Unit

  /** Closes the limit, the budget and the journal. After the operator was closed. */
  def close(): Unit = opened match {
    case last :: others =>
      opened = others
      try last.close()
      finally close()
    case Nil => ()
  }
}

private object TaskCalls {

  /** @param fatal runs, on any thread, when no call can be made any more */
  def of(
      task: AsyncIOTaskSpec,
      context: TaskContext,
      failed: FailedCalls,
      fatal: Throwable => Unit
  ): TaskCalls =
    task.function match {
      case python: AsyncIOFunction.Python =>
        val settings = task.channelSettings(python, context)
        new PythonCalls(task, new PythonChannel(settings, context, _), failed, fatal)
      case AsyncIOFunction.OfTask => throw new IllegalStateException("The function is not in its task")
      case AsyncIOFunction.Keyed(connect, adapt) =>
        new PythonCalls(task, connect, failed, fatal) {
          override def adapted(options: AsyncOptions[InternalRow, InternalRow]) = adapt(options)
        }
      case AsyncIOFunction.Jvm(className, options) => new JvmCalls(task, className, options)
    }

  private final class JvmCalls(task: AsyncIOTaskSpec, className: String, options: Map[String, String])
      extends TaskCalls(task) {
    override val held: HeldLimits = opening(ExecutorLimits.ofProcess.hold(task))
    override val function: RowAsyncFunction = orClosed {
      new RowAsyncFunction(
        task.spec.operator,
        new UserClasses(task.spec.operator)
          .instantiate(className, options, classOf[AsyncFunction[Row, Row]]),
        task.text,
        task.inputSchema,
        task.spec.returns,
        task.columns.answers,
        task.inputView()
      )
    }
    override def connect(operator: AsyncWaitOperator[InternalRow, InternalRow]): Unit = ()
    override def abort(): Unit = ()
  }

  private class PythonCalls(
      task: AsyncIOTaskSpec,
      newChannel: PythonAsyncFunction => CallChannel,
      failed: FailedCalls,
      fatal: Throwable => Unit
  ) extends TaskCalls(task) {
    override val held: HeldLimits = opening(ExecutorLimits.ofProcess.hold(task))
    private val noMatch = new GenericInternalRow(task.columns.answers.length)

    override val function: PythonAsyncFunction =
      new PythonAsyncFunction(
        noMatch,
        task.text.about(task.columns.answers)(_),
        fatal,
        task.lookAhead > 0,
        failed.attempt(_)(_)
      )
    private val channel = orClosed(newChannel(function))

    override def connect(operator: AsyncWaitOperator[InternalRow, InternalRow]): Unit =
      function.connect(channel, operator.completionBatch(), operator.metrics.usage.add)

    override def abort(): Unit = channel.abort()
  }
}
