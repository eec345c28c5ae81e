package io.pillarbox.spark.async

import com.fasterxml.jackson.databind.annotation.JsonDeserialize
import io.pillarbox.spark.base.SpecJson
import org.apache.spark.sql.types.StructType

/** What becomes of a row whose call finally failed. */
@JsonDeserialize(using = classOf[OnErrorReader])
private[pillarbox] sealed abstract class OnError(val name: String)

private[pillarbox] object OnError {
  case object Raise extends OnError("raise")
  case object Null extends OnError("null")
  case object Column extends OnError("column")

  def of(name: String): OnError =
    SpecJson.choice("on_error", name, Seq(Raise, Null, Column).map(option => option.name -> option): _*)
}

private final class OnErrorReader extends SpecJson.Named[OnError](OnError.of)

/** Which calls a limit counts together. */
@JsonDeserialize(using = classOf[LimitScopeReader])
private[pillarbox] sealed abstract class LimitScope(val name: String)

private[pillarbox] object LimitScope {

  /** Those of one task, or of a slot with carry-over. */
  case object Task extends LimitScope("task")

  /** Those of all tasks of the operator in an executor. */
  case object Executor extends LimitScope("executor")

  /** Those of the operator in one streaming query, or in one action of a batch, in all executors. */
  case object Query extends LimitScope("query")

  def of(name: String): LimitScope =
    SpecJson.choice("scope", name, Seq(Task, Executor, Query).map(option => option.name -> option): _*)
}

private final class LimitScopeReader extends SpecJson.Named[LimitScope](LimitScope.of)

/**
 * Exponential back-off: attempt `n` waits `backoffMs * multiplier^(n-1)`, at most `maxBackoffMs`, with
 * jitter.
 *
 * @param retryOn
 *   for a function of the JVM: the classes of exceptions that are worth it; none named: all
 * @param refusesResults
 *   whether results may count as failures
 */
private[pillarbox] final case class RetrySpec(
    maxAttempts: Int,
    backoffMs: Long,
    multiplier: Double = 1.0,
    maxBackoffMs: Long = Long.MaxValue,
    jitter: Double = 0.0,
    retryOn: Set[String] = Set.empty,
    refusesResults: Boolean = false
)

/** At most `permits` calls started in any `intervalMs`. */
private[pillarbox] final case class RateSpec(permits: Int, intervalMs: Long)

/**
 * The options of one async I/O operator, as the Python API sends them; times in milliseconds, 0 = none.
 *
 * @param mode
 *   how the function is called: `row` and `batch` are coroutines, `thread` a plain function in the worker's
 *   thread pool, `jvm` a class on the executor's class path
 * @param threads
 *   how many calls of a plain Python function a worker can run at a time; none for a coroutine
 * @param returns
 *   the columns that the function's result adds
 * @param carryOver
 *   whether calls in flight outlive a micro-batch of a stream
 * @param maxLagMs
 *   the age of the oldest row from which on a micro-batch waits for it
 * @param maxCarried
 *   rows of a slot that may wait for their turn in the order
 * @param adaptive
 *   whether the limit of calls follows what the service bears
 * @param scope
 *   which calls the limits count together
 * @param slots
 *   parts into which the rows of a stream with carry-over are divided
 * @param journal
 *   the folder in which answers are kept; an empty text is one in the query's checkpoint
 * @param journalTtlMs
 *   how old an answer may be
 * @param callKey
 *   the columns that name a call; none named: those of the function
 * @param shareCalls
 *   whether rows in flight with one key share a call
 * @param by
 *   the columns by whose values rows are put into partitions, and within which an order is kept; none named:
 *   rows stay where they are
 * @param perKey
 *   calls of rows with one key in flight at a time
 * @param signature
 *   alike for operators of one kind, in every run of a program
 * @param operatorId
 *   names this call of `async_io` in every executor of the application, wherever its DataFrame is used;
 *   limits that tasks share go by it
 * @param callScope
 *   what the ids of its calls begin with, unless it has a place in a streaming query
 * @param json
 *   the very text this was read from; the worker gets it too
 */
private[pillarbox] final case class AsyncIOSpec(
    name: String,
    mode: String = "row",
    className: Option[String],
    options: Map[String, String] = Map.empty,
    ordered: Boolean = true,
    capacity: Int = 100,
    timeoutMs: Long = 0,
    attemptTimeoutMs: Long = 0,
    retry: Option[RetrySpec],
    onError: OnError = OnError.Raise,
    errorColumn: String = "error",
    @JsonDeserialize(contentAs = classOf[Integer]) maxConcurrency: Option[Int],
    rate: Option[RateSpec],
    adaptive: Boolean = false,
    scope: LimitScope = LimitScope.Executor,
    inputs: Seq[String] = Nil,
    @JsonDeserialize(using = classOf[SpecJson.SchemaReader]) returns: StructType,
    explode: Boolean = false,
    @JsonDeserialize(contentAs = classOf[Integer]) batchSize: Option[Int],
    batchWaitMs: Long = 0,
    @JsonDeserialize(contentAs = classOf[Integer]) threads: Option[Int],
    by: Seq[String] = Nil,
    @JsonDeserialize(contentAs = classOf[Integer]) perKey: Option[Int],
    signature: String = "",
    carryOver: Boolean = false,
    maxLagMs: Long = AsyncIOSpec.MaxLagMs,
    @JsonDeserialize(contentAs = classOf[Integer]) maxCarried: Option[Int],
    @JsonDeserialize(contentAs = classOf[Integer]) slots: Option[Int],
    journal: Option[String],
    journalTtlMs: Long = 0,
    callKey: Seq[String] = Nil,
    shareCalls: Boolean = false,
    operatorId: String,
    callScope: Option[String],
    json: String = ""
) {

  /** What messages call it. */
  def operator: String = s"async_io($name)"

  /** Whether calls are limited in another way than by the capacity. */
  def isGated: Boolean = maxConcurrency.nonEmpty || rate.nonEmpty

  /** Whether calls are named by what they ask, and not by the place of their row. */
  def isKeyed: Boolean = journal.isDefined || shareCalls

  /** The calls that one task may make at a time, if its worker has fewer threads than the capacity needs. */
  def threadLimit: Option[Int] = threads.filter(_ < capacity)

  /** Rows that may be taken in and not yet emitted with carry-over, where an order makes them wait. */
  def maxWaiting: Int =
    if (carryOver && ordered) maxCarried.getOrElse(math.multiplyExact(AsyncIOSpec.MaxCarriedShare, capacity))
    else 0

  /** The same operator in a batch query. */
  def withoutCarryOver: AsyncIOSpec = copy(carryOver = false)

  /** What `explain()` shows. */
  def summary: Seq[String] = Seq(
    Some(name),
    Some(s"mode=$mode"),
    Some(s"ordered=$ordered"),
    Some(s"capacity=$capacity"),
    Option.when(timeoutMs > 0)(s"timeout=${timeoutMs}ms"),
    Option.when(attemptTimeoutMs > 0)(s"attempt_timeout=${attemptTimeoutMs}ms"),
    retry.map(r => s"retry=${r.maxAttempts}x ${r.backoffMs}ms"),
    Some(s"on_error=${onError.name}"),
    maxConcurrency.map(n => s"max_concurrency=$n"),
    rate.map(r => s"rate_limit=${r.permits}/${r.intervalMs}ms"),
    Option.when(adaptive)("adaptive=true"),
    Option.when(scope != LimitScope.Executor)(s"scope=${scope.name}"),
    batchSize.map(n => s"batch_size=$n"),
    Option.when(explode)("explode=true"),
    Option.when(by.nonEmpty)(s"by=${by.mkString(", ")}"),
    perKey.map(n => s"per_key=$n"),
    Option.when(carryOver)("carry_over=true"),
    journal.map(path => s"journal=${if (path.isEmpty) "checkpoint" else path}"),
    Option.when(journalTtlMs > 0)(s"journal_ttl=${journalTtlMs}ms"),
    Option.when(callKey.nonEmpty)(s"call_key=${callKey.mkString("[", ", ", "]")}"),
    Option.when(shareCalls)("share_calls=true")
  ).flatten
}

private[pillarbox] object AsyncIOSpec {
  final val MaxLagMs = 30000L
  private final val MaxCarriedShare = 10

  /** @throws IllegalArgumentException if a field is missing, has no meaning or does not fit */
  def fromJson(json: String): AsyncIOSpec = {
    val spec = SpecJson.read[AsyncIOSpec](json)
    if (spec.name == null) throw new IllegalArgumentException("The operator has no name")
    if (spec.operatorId == null)
      throw new IllegalArgumentException(s"${spec.operator}: there is no operator_id")
    spec.copy(json = json)
  }
}
