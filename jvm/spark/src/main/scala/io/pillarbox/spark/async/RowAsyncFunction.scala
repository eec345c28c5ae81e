package io.pillarbox.spark.async

import java.util.{Collection => JCollection}

import scala.jdk.CollectionConverters._

import io.pillarbox.api.{AsyncFunction, OpenContext, ResultFuture}
import io.pillarbox.spark.base.{FailureReport, JvmExceptions, PythonText}
import io.pillarbox.spark.task.{ReportedException, UserClasses, UserRows}
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.types.StructType

/**
 * Runs a user's `AsyncFunction[Row, Row]` on Spark's own rows.
 *
 * @param operator the operator whose function it is, as messages name it
 * @param text how errors show values
 * @param returns the columns that the function's rows must have
 * @param resultSchema these, and the columns after them that the function does not know, which are null
 */
private[pillarbox] final class RowAsyncFunction(
    operator: String,
    function: AsyncFunction[Row, Row],
    text: PythonText,
    inputSchema: StructType,
    returns: StructType,
    resultSchema: StructType,
    inputOf: InternalRow => InternalRow
) extends AsyncFunction[InternalRow, InternalRow] {
  import RowAsyncFunction._

  private val toScala = CatalystTypeConverters.createToScalaConverter(inputSchema)

  private val rows = {
    val others = resultSchema.drop(returns.length)
    if (others.isEmpty) new UserRows(returns, text)
    else {
      val padding = others.map(_ => null)
      new UserRows(returns, text, StructType(returns ++ others), row => Row.fromSeq(row.toSeq ++ padding))
    }
  }

  override def open(context: OpenContext): Unit =
    try function.open(context)
    catch {
      case problem if JvmExceptions.isOfCode(problem) => throw UserClasses.openFailed(operator, problem)
    }

  override def close(): Unit = function.close()

  override def asyncInvoke(input: InternalRow, future: ResultFuture[InternalRow]): Unit =
    try function.asyncInvoke(external(input), converting(future))
    catch { case missing: LinkageError => future.completeExceptionally(missing) }

  override def timeout(input: InternalRow, future: ResultFuture[InternalRow]): Unit =
    function.timeout(external(input), converting(future))

  override def cancel(input: InternalRow, future: ResultFuture[InternalRow]): Unit =
    function.cancel(external(input), converting(future))

  private def external(input: InternalRow): Row = toScala(inputOf(input)).asInstanceOf[Row]

  private def internal(row: Row): InternalRow =
    try rows.synchronized(rows.toInternal(row).copy())
    catch {
      case misfit: IllegalArgumentException =>
        throw new ReportedException(FailureReport.of(Mismatch, operator, "reason" -> misfit.getMessage))
    }

  private def converting(future: ResultFuture[InternalRow]): ResultFuture[Row] = new ResultFuture[Row] {
    override def callId: String = future.callId
    override def attempt: Int = future.attempt
    override def elapsedMs: Long = future.elapsedMs
    override def isDone: Boolean = future.isDone
    override def reportUsage(unit: String, amount: Double): Unit = future.reportUsage(unit, amount)
    override def completeOne(row: Row): Unit =
      convert(future.completeOne(if (row == null) null else internal(row)))
    override def complete(rows: JCollection[Row]): Unit =
      convert(future.complete(if (rows == null) null else rows.asScala.map(internal).toSeq.asJavaCollection))
    override def completeExceptionally(error: Throwable): Unit = future.completeExceptionally(error)

    /** A row that does not fit the schema fails its own element, not the thread that completes it. */
    private def convert(complete: => Unit): Unit =
      try complete
      catch { case problem: RuntimeException => future.completeExceptionally(problem) }
  }
}

private object RowAsyncFunction {
  private final val Mismatch = "JVM_RESULT_MISMATCH"
}
