package io.pillarbox.spark.async

import io.pillarbox.async.gate.CallGate
import io.pillarbox.async.journal.CallKey
import io.pillarbox.async.retry.{AsyncRetryStrategies, AsyncRetryStrategy}
import io.pillarbox.async.{AsyncOptions, Batching, Keyed}
import io.pillarbox.spark.async.python.ChannelSettings
import io.pillarbox.spark.base.PythonText
import io.pillarbox.spark.worker.SessionStart
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection}
import org.apache.spark.sql.catalyst.{InternalRow, ProjectingInternalRow}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.pillarbox.{SourceContext, SparkAdapter}
import org.apache.spark.sql.types.StructType

/**
 * What the tasks of one async I/O operator need, made on the driver and sent to them.
 *
 * @param limitKey
 *   names what its limits count, for tasks that share them
 * @param callScope
 *   what the ids of calls begin with
 * @param childSchema
 *   of the rows that come in, all of which go out again
 * @param inputOrdinals
 *   the columns that the function is given
 * @param keyOrdinals
 *   the columns that name a call; none where calls have no keys
 * @param byOrdinals
 *   the columns within whose values an order is kept
 * @param resultSchema
 *   the columns that are added, the error column included
 */
private[pillarbox] final case class AsyncIOTask(
    spec: AsyncIOSpec,
    function: AsyncIOFunction,
    limitKey: String,
    callScope: String,
    childSchema: StructType,
    inputOrdinals: Seq[Int],
    keyOrdinals: Seq[Int],
    byOrdinals: Seq[Int],
    resultSchema: StructType,
    timeZone: String,
    largeVarTypes: Boolean,
    maxRowsPerFrame: Int,
    journal: Option[JournalFolder],
    metrics: Map[String, SQLMetric]
) {

  /** The columns that the function is given. */
  val inputSchema: StructType = StructType(inputOrdinals.map(childSchema.fields(_)))

  /**
   * The iterator of one partition. Opens nothing until the first row is asked for, and nothing for an empty
   * one.
   *
   * @param partition
   *   its number among those of the operator; a task may have several, and then another number
   */
  def run(partition: Int, input: Iterator[InternalRow]): Iterator[InternalRow] =
    iterator(partition, input, TaskContext.get(), None)

  /**
   * As `run`, but rows leave when their calls end, also while `input` blocks: a thread of its own reads it.
   *
   * @param reading
   *   the context that `input` was made with, if it could be, and is read with
   */
  def runBeside(
      partition: Int,
      input: Iterator[InternalRow],
      context: TaskContext,
      reading: SourceContext
  ): Iterator[InternalRow] = iterator(partition, input, context, Some(reading))

  private def iterator(
      partition: Int,
      input: Iterator[InternalRow],
      context: TaskContext,
      reading: Option[SourceContext]
  ) = new AsyncIOIterator(copy(callScope = s"$callScope-$partition"), input, context, reading)

  /** A function that shows the input columns of a row; each thread needs its own. */
  def inputView(): InternalRow => InternalRow =
    if (inputOrdinals == childSchema.indices) identity
    else {
      val view = ProjectingInternalRow(inputSchema, inputOrdinals.toIndexedSeq)
      row => {
        view.project(row)
        view
      }
    }

  /** Names the call of a row by what it asks; each thread needs its own. */
  private def callKeys(): InternalRow => CallKey = new CallKeys(spec, childSchema, keyOrdinals)

  /** Where calls are named so: the name of a row's call; each thread needs its own. */
  def callNames(): Option[InternalRow => CallKey] = Option.when(spec.isNamed)(callKeys())

  /** The key of a row, as bytes that are equal where keys are. One thread. */
  private def byKeys(): InternalRow => AnyRef = {
    val project = UnsafeProjection.create(byOrdinals.map { ordinal =>
      SparkAdapter.normalizeKey(BoundReference(ordinal, childSchema(ordinal).dataType, nullable = true))
    })
    row => project(row).copy()
  }

  /** The core operator's options. */
  def options(gate: CallGate, answers: Option[TaskJournal]): AsyncOptions[InternalRow, InternalRow] = {
    val view = inputView()
    AsyncOptions(
      spec.ordered,
      spec.capacity,
      spec.timeoutMs,
      spec.attemptTimeoutMs,
      retryStrategy,
      new RowFailurePolicy(spec, row => PythonText.row(view(row), inputSchema)),
      gate,
      lookAhead,
      spec.batch.map(batch => Batching(batch.rows, batch.waitMs)),
      spec.maxWaiting,
      Option.when(byOrdinals.nonEmpty)(Keyed(byKeys(), spec.callsPerKey.getOrElse(0))),
      callKey = Option.when(spec.journal.isDefined || spec.shareCalls)(callKeys()),
      journal = answers,
      shareCalls = spec.shareCalls
    )
  }

  /**
   * Rows that the Python worker gets before there is room for their calls, so that a place which becomes free
   * does not wait for the way to the JVM and back. None where another rule than the capacity says when a call
   * may start: a gate, a thread, a group, or the order, in which a call that is done keeps its place until
   * the row has left. And none with a journal: a worker whose executor was killed would start calls whose
   * answers nobody keeps.
   */
  def lookAhead: Int =
    if (
      spec.form == "jvm" || spec.ordered ||
      Seq(spec.carryOver, spec.journal, spec.limit, spec.callsPerKey, spec.batch, spec.threadLimit)
        .exists(_.isDefined)
    ) 0
    else math.min(spec.capacity / AsyncIOTask.LookAheadShare, AsyncIOTask.MostLookAhead)

  private def retryStrategy: AsyncRetryStrategy[InternalRow] = spec.retry.fold(
    AsyncRetryStrategies.noRetry[InternalRow]
  ) { retry =>
    AsyncRetryStrategies
      .exponentialBackoff[InternalRow](
        retry.maxAttempts,
        retry.backoffMs,
        math.max(retry.maxBackoffMs, retry.backoffMs),
        retry.multiplier,
        retry.jitter
      )
      .ifException(new RetryableFailures(retry.retryOn))
  }

  /** What the channel tells the worker. */
  def channelSettings(python: AsyncIOFunction.Python, context: TaskContext): ChannelSettings =
    ChannelSettings(
      spec.name,
      python.function,
      initJson(context),
      SparkAdapter.arrowSchema(inputSchema, timeZone, largeVarTypes),
      () => inputView(),
      () => callNames(),
      SparkAdapter.arrowSchema(spec.returns, timeZone, largeVarTypes),
      resultSchema,
      maxRowsPerFrame
    )

  private def initJson(context: TaskContext): String = SessionStart.initJson(spec.json, context) {
    _.put("call_id_prefix", callScope)
      .put("input_schema", inputSchema.json)
      .put("named_calls", spec.isNamed)
      .put("look_ahead", lookAhead): Unit
  }
}

private[pillarbox] object AsyncIOTask {

  /** A quarter of the capacity covers the way there and back, a few ms, unless calls are as short as that. */
  private final val LookAheadShare = 4
  private final val MostLookAhead = 256
}
