package io.pillarbox.spark.async

import com.fasterxml.jackson.databind.node.ObjectNode
import io.pillarbox.async.retry.{AsyncRetryStrategies, AsyncRetryStrategy}
import io.pillarbox.async.{AsyncOptions, Keyed, Ticketing}
import io.pillarbox.metered.budget.BudgetPart
import io.pillarbox.metered.journal.CallKey
import io.pillarbox.metered.limit.Limiter
import io.pillarbox.spark.async.python.{ChannelSettings, PythonCallException, ResultDecoder}
import io.pillarbox.spark.base.{PythonText, SpecJson}
import io.pillarbox.spark.task.FailedCalls
import io.pillarbox.spark.worker.SessionStart
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, UnsafeProjection}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.pillarbox.{DriverMessages, SourceContext, SparkAdapter}
import org.apache.spark.sql.types.{StructField, StructType}

/**
 * The columns of an operator's rows.
 *
 * @param child the columns that come in, all of which go out again
 * @param inputs the places of those that the function is given
 * @param keys the places of those that name a call; none where calls have no keys
 * @param by the places of those within whose values an order is kept
 * @param answers the columns that are added but for the last: those of answers, and that of the error
 * @param call the column that tells of a row's call, if there is one
 * @param limits the place of the key of each limit that has one, in their order
 */
private[pillarbox] final case class CallColumns(
    child: StructType,
    inputs: Seq[Int],
    keys: Seq[Int],
    by: Seq[Int],
    answers: StructType,
    call: Option[StructField],
    limits: Seq[Int] = Nil
) {

  /** The columns that are added. */
  val results: StructType = StructType(answers ++ call)

  def output: StructType = StructType(child ++ results)

  def keySchema: StructType = StructType(keys.map(child.fields(_)))
}

/**
 * The data that all calls of one job, or of one streaming query, share.
 *
 * @param scope names where rows are numbered, as part of the ids of their calls
 * @param limitKeys name what each of the operator's limits counts, for tasks that share it
 * @param journal the folder in which answers are kept, if they are
 * @param budgetKey names the operator's budget for executors, if it has one
 * @param part the number of the partition, or of the slot
 */
private[pillarbox] final case class CallSite(
    scope: String,
    limitKeys: Seq[String],
    journal: Option[JournalFolder],
    budgetKey: Option[String],
    part: Int = 0
) {

  /** Returns the site of a part of the operator: of a partition, or of a slot. */
  def ofPart(number: Int): CallSite = copy(scope = s"$scope-$number", part = number)
}

/** The session's settings of Arrow. */
private[pillarbox] final case class ArrowSettings(
    timeZone: String,
    largeVarTypes: Boolean,
    maxRowsPerFrame: Int
)

/**
 * The description of an async I/O operator for its tasks, made on the driver and sent to them.
 *
 * @param text how errors show values
 * @param estimates the amounts that limits charge a row with, of those that have an expression, in their order
 */
private[pillarbox] final case class AsyncIOTaskSpec(
    spec: AsyncIOSpec,
    function: AsyncIOFunction,
    columns: CallColumns,
    site: CallSite,
    arrow: ArrowSettings,
    text: PythonText,
    metrics: Map[String, SQLMetric],
    estimates: Seq[Expression] = Nil
) {

  /** The columns that the function is given. */
  val inputSchema: StructType = StructType(columns.inputs.map(columns.child.fields(_)))

  /**
   * Returns the iterator of one partition, which opens nothing before the first row is asked for.
   *
   * @param partition its number among the operator's; a task may have several, and then another number
   * @param reading the context that `input` is read with by a thread of its own, so that rows leave when their
   *   calls end, even if it blocks
   */
  def run(
      partition: Int,
      input: Iterator[InternalRow],
      context: TaskContext,
      reading: Option[SourceContext] = None
  ): Iterator[InternalRow] =
    new AsyncIOIterator(copy(site = site.ofPart(partition)), input, context, reading)

  /** Names what lends the task projections of its rows, if it belongs to a query or an action. */
  def lending(context: TaskContext): Option[String] =
    Option.when(DriverMessages.runOf(context).nonEmpty)(DriverMessages.startOf(context))

  /** Returns a function that shows the input columns of a row; each thread needs its own. */
  def inputView(): InternalRow => InternalRow = SparkAdapter.view(columns.child, columns.inputs)

  private def callKeys(): CallKeys = CallKeys.byValues(spec, columns.child, columns.keys)

  /** Returns a function that gives what a row asks. Single-threaded. */
  private def keyOf(): InternalRow => CallKey = {
    val keys = callKeys()
    row => keys(row, 0)
  }

  /** Returns a function that names the call of a row with its number; each thread needs its own. */
  def callNames(): (InternalRow, Long) => CallKey =
    if (spec.isNamed) callKeys() else CallKeys.byPlace(site.scope, columns.child, columns.inputs)

  /** The text that `pb.call_id()` gives to a function in Python. Any thread. */
  private def callIds(): (InternalRow, Long, Int) => String = {
    // Most tasks have no failure that names its call.
    lazy val nameOf = callNames()
    (row, elementId, round) => nameOf.synchronized(nameOf(row, elementId)).ofRound(round).toString
  }

  /** Returns a function that gives a row's key as bytes, equal where keys are. Single-threaded. */
  private def byKeys(): InternalRow => AnyRef = {
    val project = UnsafeProjection.create(columns.by.map(keyAt))
    row => project(row).copy()
  }

  private def keyAt(ordinal: Int) =
    SparkAdapter.normalizeKey(BoundReference(ordinal, columns.child(ordinal).dataType, nullable = true))

  private def valueLimiters(held: HeldLimits) =
    Option.when(columns.limits.nonEmpty)(new RowValueLimits(held, columns.limits.map(keyAt)))

  def options(
      held: HeldLimits,
      answers: Option[TaskJournal],
      tickets: Option[TaskTickets],
      budget: Option[BudgetPart],
      failed: FailedCalls
  ): AsyncOptions[InternalRow, InternalRow] = {
    val view = inputView()
    val figures = spec.figures.options[InternalRow, InternalRow]
    figures.copy(
      retry = retryStrategy,
      onFailure = new RowFailurePolicy(spec, row => text.row(view(row), inputSchema), failed),
      limiter = if (columns.limits.isEmpty) held.limiter else Limiter.Unlimited,
      valueLimiters = valueLimiters(held),
      charges = held.charges(spec.operator, estimates),
      lookAhead = lookAhead,
      keyed = Option.when(columns.by.nonEmpty)(Keyed(byKeys(), spec.figures.callsPerKey)),
      callKey = Option.when(site.journal.isDefined || spec.shareCalls.isDefined)(keyOf()),
      journal = answers,
      shareCalls = spec.shareCalls.isDefined,
      budget = budget,
      ticketing = ticketing(tickets),
      accounted = columns.call.map(_ => CallColumn.add(_, _)),
      isRateLimit = ServiceOverload.isRateLimit,
      operatorName = spec.name,
      units = spec.usageUnits,
      oddReport = new OddReports(spec, failed).tell,
      callId = callIds()
    )
  }

  private def ticketing(tickets: Option[TaskTickets]): Option[Ticketing] =
    spec.ticketed.zip(tickets).map { case (ticketed, kept) =>
      Ticketing(ticketed.pollMs, ticketed.waits, kept, AsyncIOTaskSpec.endsTicket)
    }

  /**
   * The number of rows that the Python worker gets before there is room for their calls, so that a free place
   * does not wait for the round trip to the JVM. It is 0 where another rule than the capacity decides when a
   * call may start: a limiter, a budget, a group, or how many rows wait for their turn in the order. It is 0 with
   * a journal, too: a worker whose executor was killed would start calls whose answers nobody keeps.
   */
  def lookAhead: Int =
    if (
      spec.form == "jvm" || spec.isKeyedFunction || spec.figures.ordered || spec.figures.callsPerKey > 0 ||
      spec.limits.nonEmpty ||
      Seq(spec.carryOver, site.journal, spec.budget, spec.figures.batching).exists(_.isDefined)
    ) 0
    else math.min(spec.figures.capacity / AsyncIOTaskSpec.LookAheadShare, AsyncIOTaskSpec.MostLookAhead)

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

  /** The settings that the channel sends to the worker. */
  def channelSettings(python: AsyncIOFunction.Python, context: TaskContext): ChannelSettings = {
    val (answers, lender) = (arrowSchema(spec.returns), lending(context))
    ChannelSettings(
      spec.name,
      python.function,
      initJson(context),
      arrowSchema(inputSchema),
      () => inputView(),
      () => callNames(),
      answers,
      () => new ResultDecoder(answers, columns.answers, lender),
      arrow.maxRowsPerFrame
    )
  }

  private def arrowSchema(schema: StructType) =
    SparkAdapter.arrowSchema(schema, arrow.timeZone, arrow.largeVarTypes)

  private def initJson(context: TaskContext): String = SessionStart.initJson(text, context) { init =>
    init
      .put("kind", "async")
      .put("name", spec.name)
      .put("capacity", spec.figures.capacity)
      .put("explode", spec.explode)
      .put("expression", spec.expression)
      .put("input_schema", inputSchema.json)
      .put("look_ahead", lookAhead)
    spec.units.foldLeft(init.putArray("units"))(_.add(_))
    init.setAll[ObjectNode](SpecJson.tree(spec.worker)): Unit
  }
}

private[pillarbox] object AsyncIOTaskSpec {

  private val endsTicket: Throwable => Boolean = {
    case call: PythonCallException => call.endsTicket
    case _ => false
  }

  /** A quarter of the capacity covers the round trip, a few ms, unless calls are as short as that. */
  private final val LookAheadShare = 4
  private final val MostLookAhead = 256
}
