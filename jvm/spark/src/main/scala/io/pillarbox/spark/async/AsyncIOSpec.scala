package io.pillarbox.spark.async

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.spark.sql.types.{DataType, StructType}

/** What becomes of a row whose call finally failed. */
sealed abstract class OnError(val name: String)

object OnError {
  case object Raise extends OnError("raise")
  case object Null extends OnError("null")
  case object Column extends OnError("column")

  def of(name: String): OnError =
    Seq(Raise, Null, Column)
      .find(_.name == name)
      .getOrElse(throw new IllegalArgumentException(s"on_error is raise, null or column, found '$name'"))
}

/**
 * Exponential back-off: attempt `n` waits `backoffMs * multiplier^(n-1)`, at most `maxBackoffMs`, with jitter.
 *
 * @param retryOn
 *   for a function of the JVM: the classes of exceptions that are worth it; none named: all
 */
final case class RetrySpec(
    maxAttempts: Int,
    backoffMs: Long,
    multiplier: Double,
    maxBackoffMs: Long,
    jitter: Double,
    retryOn: Set[String] = Set.empty
)

/** At most `permits` calls started in any `intervalMs`. */
final case class RateSpec(permits: Int, intervalMs: Long)

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
 * @param signature
 *   alike for operators of one kind, in every run of a program
 * @param operatorId
 *   names the operator for limits that tasks share; none for one that gets its name here
 * @param callScope
 *   what the ids of its calls begin with, unless it has a place in a streaming query
 * @param json
 *   the very text this was read from; the worker gets it too
 */
final case class AsyncIOSpec(
    name: String,
    mode: String,
    className: Option[String],
    options: Map[String, String],
    ordered: Boolean,
    capacity: Int,
    timeoutMs: Long,
    attemptTimeoutMs: Long,
    retry: Option[RetrySpec],
    onError: OnError,
    errorColumn: String,
    maxConcurrency: Option[Int],
    rate: Option[RateSpec],
    inputs: Seq[String],
    returns: StructType,
    explode: Boolean,
    batchSize: Option[Int],
    batchWaitMs: Long,
    threads: Option[Int],
    signature: String,
    operatorId: Option[String],
    callScope: Option[String],
    json: String
) {

  /** What messages call it. */
  def operator: String = s"async_io($name)"

  /** Whether calls of all tasks of an executor are limited together. */
  def isGated: Boolean = maxConcurrency.nonEmpty || rate.nonEmpty

  /** The calls that one task may make at a time, if its worker has fewer threads than the capacity needs. */
  def threadLimit: Option[Int] = threads.filter(_ < capacity)

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
    batchSize.map(n => s"batch_size=$n"),
    Option.when(explode)("explode=true")
  ).flatten
}

object AsyncIOSpec {

  private val mapper = new ObjectMapper

  /** @throws IllegalArgumentException if a field is missing, has no meaning or does not fit */
  def fromJson(json: String): AsyncIOSpec = {
    val node = mapper.readTree(json)
    AsyncIOSpec(
      name = text(node, "name").getOrElse(throw new IllegalArgumentException("The operator has no name")),
      mode = text(node, "mode").getOrElse("row"),
      className = text(node, "class_name"),
      options = child(node, "options").fold(Map.empty[String, String])(stringMap),
      ordered = node.path("ordered").asBoolean(true),
      capacity = child(node, "capacity").fold(100)(whole),
      timeoutMs = node.path("timeout_ms").asLong(0),
      attemptTimeoutMs = node.path("attempt_timeout_ms").asLong(0),
      retry = child(node, "retry").map(retrySpec),
      onError = OnError.of(text(node, "on_error").getOrElse("raise")),
      errorColumn = text(node, "error_column").getOrElse("error"),
      maxConcurrency = child(node, "max_concurrency").map(whole),
      rate = child(node, "rate").map(r => RateSpec(whole(r.path("permits")), r.path("interval_ms").asLong)),
      inputs = child(node, "inputs").fold(Seq.empty[String])(strings),
      returns = DataType.fromJson(node.path("returns").asText).asInstanceOf[StructType],
      explode = node.path("explode").asBoolean(false),
      batchSize = child(node, "batch_size").map(whole),
      batchWaitMs = node.path("batch_wait_ms").asLong(0),
      threads = child(node, "threads").map(whole),
      signature = text(node, "signature").getOrElse(""),
      operatorId = text(node, "operator_id"),
      callScope = text(node, "call_scope"),
      json = json
    )
  }

  private def retrySpec(node: JsonNode): RetrySpec = RetrySpec(
    whole(node.path("max_attempts")),
    node.path("backoff_ms").asLong,
    node.path("multiplier").asDouble(1.0),
    node.path("max_backoff_ms").asLong(Long.MaxValue),
    node.path("jitter").asDouble(0.0),
    child(node, "retry_on").fold(Set.empty[String])(strings(_).toSet)
  )

  private def whole(number: JsonNode): Int =
    if (number.isIntegralNumber && number.canConvertToInt) number.asInt
    else throw new IllegalArgumentException(s"A whole number of 32 bits is needed, found $number")

  private def strings(node: JsonNode): Seq[String] = node.elements.asScala.map(_.asText).toSeq

  private def child(node: JsonNode, name: String): Option[JsonNode] =
    Option(node.get(name)).filterNot(_.isNull)

  private def text(node: JsonNode, name: String): Option[String] = child(node, name).map(_.asText)

  private def stringMap(node: JsonNode): Map[String, String] =
    node.properties.asScala.map(entry => entry.getKey -> entry.getValue.asText).toMap
}
