package io.pillarbox.spark.async

import java.util.concurrent.TimeUnit

import com.fasterxml.jackson.databind.annotation.JsonDeserialize
import io.pillarbox.async.CallFigures
import io.pillarbox.metered.limit.Overload
import io.pillarbox.metered.usage.UsageUnits
import io.pillarbox.spark.base.{FailureReport, SpecJson}
import org.apache.spark.sql.types.StructType

/** The fate of a row whose call has finally failed. */
@JsonDeserialize(using = classOf[OnErrorReader])
private[pillarbox] sealed abstract class OnError(val name: String)

private[pillarbox] object OnError {
  case object Raise extends OnError("raise")
  case object Null extends OnError("null")
  case object Column extends OnError("column")
}

private final class OnErrorReader
    extends SpecJson.Named[OnError]("on_error", OnError.Raise, OnError.Null, OnError.Column)(_.name)

/** The calls that a limit counts together. */
@JsonDeserialize(using = classOf[LimitScopeReader])
private[pillarbox] sealed abstract class LimitScope(val name: String)

private[pillarbox] object LimitScope {

  /** The calls of one task, or of one slot with carry-over. */
  case object Task extends LimitScope("task")

  /** The calls of all tasks of the operator in an executor. */
  case object Executor extends LimitScope("executor")

  /** The calls of the operator in one streaming query, or in one action of a batch, in all executors. */
  case object Query extends LimitScope("query")

  /** The calls of all operators of the application that name the limit, in all executors. */
  case object Application extends LimitScope("application")
}

private final class LimitScopeReader
    extends SpecJson.Named[LimitScope](
      "scope",
      LimitScope.Task,
      LimitScope.Executor,
      LimitScope.Query,
      LimitScope.Application
    )(_.name)

/**
 * Exponential back-off: attempt `n` waits `backoffMs * multiplier^(n-1)` up to `maxBackoffMs`, with jitter.
 *
 * @param retryOn for a function of the JVM: the classes of exceptions that are retried; all if none is named
 * @param refusesResults true if results may count as failures
 */
private[pillarbox] final case class RetrySpec(
    maxAttempts: Int,
    backoffMs: Long,
    multiplier: Double,
    maxBackoffMs: Long,
    jitter: Double,
    retryOn: Set[String],
    refusesResults: Boolean
)

/** At most `permits` calls are started in any `intervalMs`, or so much is used. */
private[pillarbox] final case class RateSpec(permits: Double, intervalMs: Long) {

  /**
   * The amount and the time in ns that make this rate. A call counts as a whole: half a one in a second is one
   * in two.
   */
  def amountIn(isOfUse: Boolean): (Double, Long) = {
    val nanos = TimeUnit.MILLISECONDS.toNanos(intervalMs)
    val calls = math.max(1.0, math.floor(permits))
    val ofCalls = math.min(math.ceil(nanos * (calls / permits)), Overload.LongestPauseNanos.toDouble).toLong
    if (isOfUse) (permits, nanos) else (calls, ofCalls)
  }

  /** The rate as messages show it: with the field of `pb.Limit` that it came from. */
  def summary: String = s"${RateSpec.Fields(intervalMs)}=${AsyncIOSpec.shown(permits)}"
}

private object RateSpec {
  private val Fields =
    Map(1000L -> "per_second", 60000L -> "per_minute", 3600000L -> "per_hour", 86400000L -> "per_day")
}

/**
 * The number of calls that a service may see: a concurrency, a rate, or both; or a rate of what they use.
 *
 * @param concurrency calls in flight at a time
 * @param scope the calls that are counted together
 * @param adaptive
 *   true if the concurrency is a ceiling, below which the limit follows the load that the service bears
 * @param unit what is counted; of another unit than calls a limit has a rate alone
 * @param estimate the amount of a call before it has reported; neither this nor an expression: the mean of
 *   what has been reported
 * @param estimateSql the same as an expression of the input's columns
 * @param estimateFunction the name of a function in Python that gives the same
 * @param name operators that name it share it
 * @param breaker when calls stop since the service is overloaded
 * @param key the column of which each value has a limit by itself
 */
private[pillarbox] final case class LimitSpec(
    @JsonDeserialize(contentAs = classOf[Integer]) concurrency: Option[Int],
    rate: Option[RateSpec],
    scope: LimitScope = LimitScope.Query,
    adaptive: Boolean = false,
    unit: String = LimitSpec.Calls,
    @JsonDeserialize(contentAs = classOf[java.lang.Double]) estimate: Option[Double] = None,
    estimateSql: Option[String] = None,
    estimateFunction: Option[String] = None,
    name: Option[String] = None,
    breaker: Option[BreakerSpec] = None,
    key: Option[String] = None
) {

  /** True if it counts what calls use. */
  def isOfUse: Boolean = unit != LimitSpec.Calls

  /** What it counts, in words that don't change with its figures. */
  def counted: String = Seq(
    Some(unit),
    rate.map(r => s"per ${r.intervalMs} ms"),
    key.map(column => s"of $column"),
    name.map(name => s"in $name")
  ).flatten.mkString(" ")

  /** The limit without what an operator says of its own calls, and with the type of its key, if that is known. */
  def figures(keyType: String = ""): LimitSpec =
    copy(estimate = None, estimateSql = None, estimateFunction = None, key = key.map(_ => keyType))

  /** True if it has something that the driver could lend to executors, beside what each does by itself. */
  private def hasAmounts: Boolean = concurrency.isDefined || rate.isDefined

  /** True if the driver lends parts of it to executors. */
  def isLent: Boolean = hasAmounts && (scope == LimitScope.Query || scope == LimitScope.Application)

  /** The limit as messages show it. */
  def summary: String = Seq(
    concurrency.map(n => s"concurrency=$n"),
    rate.map(_.summary),
    Option.when(isOfUse)(s"unit=$unit"),
    estimate.map(AsyncIOSpec.shown).orElse(estimateSql).orElse(estimateFunction).map(by => s"estimate=$by"),
    name.map(name => s"name=$name"),
    key.map(column => s"key=$column"),
    Some(s"scope=${scope.name}"),
    Option.when(adaptive)("adaptive=true"),
    breaker.map(b => s"breaker=${b.failures} pause=${b.pauseMs}ms")
  ).flatten.mkString(" ")
}

/** After so many failures in a row that say "overloaded" no call begins for `pauseMs`, and then one tries. */
private[pillarbox] final case class BreakerSpec(failures: Int, pauseMs: Long)

private[pillarbox] object LimitSpec {

  /** The unit of limits that count calls. */
  final val Calls = "calls"
}

/**
 * Calls are submitted for a ticket, and their answers collected later.
 *
 * @param pollMs the time between two times that a ticket is asked for
 * @param waits false if a row whose ticket has no answer leaves as pending
 */
private[pillarbox] final case class TicketedSpec(pollMs: Long, waits: Boolean)

/**
 * Calls in flight outlive a micro-batch of a stream.
 *
 * @param maxLagMs the age of the oldest row from which on a micro-batch waits for it
 * @param maxRows rows of a slot that may be under way, or done and wait for their turn in the order
 * @param slots parts into which the rows of the stream are divided
 */
private[pillarbox] final case class CarryOverSpec(
    maxLagMs: Long,
    @JsonDeserialize(contentAs = classOf[Integer]) maxRows: Option[Int],
    @JsonDeserialize(contentAs = classOf[Integer]) slots: Option[Int]
)

/**
 * Answers are kept.
 *
 * @param path the folder; an empty text is one in the query's checkpoint
 * @param ttlMs the age up to which an answer is used; 0 for ever
 * @param version part of the names of calls, beside the operator's name
 */
private[pillarbox] final case class JournalSpec(path: String, ttlMs: Long, version: Option[String])

/**
 * The options that the Python worker alone goes by, which gets all of them.
 *
 * @param threads the most threads of a worker in which a plain function runs
 * @param arguments in an expression the names of the function's parameters that are given by name, and an
 *   empty text for each that is given by place
 * @param blockedLoopMs the time after which a worker's loop that does not turn ends the task
 */
private[pillarbox] final case class WorkerOptions(threads: Int, arguments: Seq[String], blockedLoopMs: Long)

/**
 * The options of one async I/O operator, as the Python API sends them; times in milliseconds, 0 = none.
 *
 * @param form the kind of the function: `row` and `batch` are coroutines, `thread` a plain function in the
 *   worker's threads, `jvm` a class on the executor's class path; `keyed` a keyed function's coroutines
 * @param returns the columns that the function's result adds
 * @param journal set if answers are kept
 * @param callKey the columns that name a call; none named: those of the function
 * @param shareCalls "task" if rows in flight with one key share a call; "query" if all rows with one key come
 *   into one task for that
 * @param by the columns by whose values rows are put into partitions, and within which an order is kept; none
 *   named: rows stay where they are
 * @param budget when to stop calling
 * @param ticketed set if calls are answered later
 * @param estimator the functions in Python that estimate what a row's call uses, as a UDF of Spark in base64
 * @param signature alike for operators of one kind, in every run of a program
 * @param operatorId names this call of `async_io` in every executor of the application, wherever its
 *   DataFrame is used; limits that tasks share go by it
 * @param callScope the prefix of the ids of its calls, unless it has a place in a streaming query
 * @param callColumn the name of the column that tells of each row's call, if there is one
 * @param units in which calls report what they use
 * @param expression true for a call in an expression, whose only result is one value
 * @param shown the options that are no defaults, for `explain()`
 */
private[pillarbox] final case class AsyncIOSpec(
    name: String,
    form: String,
    className: Option[String],
    options: Map[String, String],
    figures: CallFigures,
    worker: WorkerOptions,
    retry: Option[RetrySpec],
    onError: OnError,
    errorColumn: Option[String],
    limits: Seq[LimitSpec],
    inputs: Seq[String],
    @JsonDeserialize(using = classOf[SpecJson.SchemaReader]) returns: StructType,
    explode: Boolean,
    by: Seq[String],
    estimator: Option[String],
    signature: String,
    carryOver: Option[CarryOverSpec],
    journal: Option[JournalSpec],
    callKey: Seq[String],
    shareCalls: Option[String],
    budget: Option[BudgetSpec],
    ticketed: Option[TicketedSpec],
    operatorId: String,
    callScope: Option[String],
    callColumn: Option[String],
    units: Seq[String],
    expression: Boolean,
    shown: Seq[String]
) {

  /** True if they are the calls of a keyed function, which its workers make. */
  def isKeyedFunction: Boolean = form == AsyncIOSpec.KeyedForm

  /** The operator as messages name it. */
  def operator: String =
    if (isKeyedFunction) FailureReport.keyed(name)
    else s"${if (expression) "async_udf" else "async_io"}($name)"

  def usageUnits: UsageUnits = UsageUnits(units)

  /** True if calls are named by what they ask, and not by the place of their row. */
  def isNamed: Boolean = journal.isDefined || callKey.nonEmpty

  /** True if calls that ask the same must be recognised. */
  def isKeyed: Boolean = isNamed || shareCalls.isDefined

  /** True if all rows that ask the same come into one task. */
  def sharesInQuery: Boolean = shareCalls.contains("query")

  /** The operator without the pickled functions, once they are a UDF: tasks have no use for them. */
  def withoutEstimator: AsyncIOSpec = copy(estimator = None)

  /** The same operator in a batch query. */
  def withoutCarryOver: AsyncIOSpec =
    copy(carryOver = None, shown = shown.filterNot(_.startsWith("carry_over=")))

  /** The version of its journal, a part of the names of calls. */
  def journalVersion: Option[String] = journal.flatMap(_.version)

  /** The options as `explain()` shows them. */
  def summary: Seq[String] =
    Seq(
      name,
      s"form=$form",
      s"ordered=${figures.ordered}",
      s"capacity=${figures.capacity}",
      s"on_error=${onError.name}"
    ) ++ shown
}

private[pillarbox] object AsyncIOSpec {

  /** The form of the calls of a keyed function. */
  final val KeyedForm = "keyed"

  /** Shows a number as it was given. */
  def shown(number: Double): String =
    if (number == math.rint(number) && math.abs(number) < 1e15) number.toLong.toString else number.toString
}
