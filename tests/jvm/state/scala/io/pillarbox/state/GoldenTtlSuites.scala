package io.pillarbox.state

import java.nio.file.{Files, Paths}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import io.pillarbox.api.StateTtl._
import io.pillarbox.api.{ExpiryListener, ScalaSerializers, Serializers, StateTtl, TimeDomain}
import io.pillarbox.state.ScalaHandles._
import io.pillarbox.state.heap.HeapFixture
import io.pillarbox.state.rocksdb.RocksDBFixture
import io.pillarbox.state.ttl.TtlPolicy
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.scalatest.funsuite.AnyFunSuite

/** The cases of tests/golden/ttl.json, see the README there. */
abstract class GoldenTtlSuite extends AnyFunSuite with StateFixture {
  private val file = Paths.get("tests", "golden", "ttl.json")

  for (one <- new ObjectMapper().readTree(Files.readString(file)).get("cases").asScala)
    test(one.get("name").asText) {
      val clock = new ManualClock(0L)
      withBackend(clock, sweeps = false) { backend =>
        val states = new GoldenTtlStates(backend, configOf(one.get("ttl")))
        one.get("steps").asScala.foreach(play(states, clock, backend, _))
        assert(states.told == one.get("told").asScala.map(_.asText).toSeq)
      }
    }

  private def play(
      states: GoldenTtlStates,
      clock: ManualClock,
      backend: KeyedStateBackend[String],
      step: JsonNode
  ): Unit = {
    def time(at: Int): Long = if (step.get(at).isNull) StateClock.Unknown else step.get(at).asLong
    clock.watermark = time(0)
    clock.processingTime = time(1)
    clock.recordTimestamp = time(2)
    if (clock.watermark != StateClock.Unknown) backend.noteWatermark(clock.watermark)
    backend.setCurrentKey("a")
    val op = step.get(3).asText
    val found = states.run(op.split(' ').toList)
    if (!step.get(4).isNull) assert(found == step.get(4).asText, step)
    if (!step.get(5).isNull) {
      val expected =
        step.get(5).asScala.map(timestamp => if (timestamp.isNull) StateClock.Unknown else timestamp.asLong)
      assert(states.timestamps(op) == expected.toSeq, step)
    }
  }

  private def configOf(node: JsonNode): StateTtl = TestState.ttl(
    10L,
    if (node.has("update")) Update.ON_READ_AND_WRITE else Update.ON_CREATE_AND_WRITE,
    if (node.has("visibility")) Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP
    else Visibility.NEVER_RETURN_EXPIRED,
    if (node.has("time_domain")) TimeDomain.EVENT_TIME else TimeDomain.PROCESSING_TIME
  )
}

/** What the cases act on. */
private final class GoldenTtlStates(backend: KeyedStateBackend[String], config: StateTtl) {
  val told: mutable.ArrayBuffer[String] = mutable.ArrayBuffer.empty
  private val ttl = Some(config)
  private val listener: Option[ExpiryListener] =
    Some((_, userKey, value) => told += (if (userKey == null) s"$value" else s"$userKey=$value"): Unit)
  private val long = ScalaSerializers.long
  private val one = TestState.value("one", long, ttl, listener)
  private val many = TestState.list("many", long, ttl, listener)
  private val named = TestState.map("named", Serializers.ofString, long, ttl, listener)
  private val sum = TestState.reducing[Long]("sum", _ + _, long, ttl, listener)
  private val policy = new TtlPolicy(config, backend)

  def run(op: List[String]): String = op match {
    case List("put", n) => done(backend.getOrCreate(one).update(n.toLong))
    case List("get") => shown(backend.getOrCreate(one).value())
    case List("add", n) => done(backend.getOrCreate(many).add(n.toLong))
    case List("all") => backend.getOrCreate(many).get().mkString(", ")
    case List("set", key, n) => done(backend.getOrCreate(named).put(key, n.toLong))
    case List("at", key) => shown(backend.getOrCreate(named).get(key))
    case List("entries") =>
      backend.getOrCreate(named).entries.map(e => s"${e.getKey}=${e.getValue}").toSeq.sorted.mkString(", ")
    case List("empty") => if (backend.getOrCreate(named).isEmpty) "yes" else "no"
    case List("sum", n) => done(backend.getOrCreate(sum).add(n.toLong))
    case _ => shown(backend.getOrCreate(sum).get())
  }

  /** Of the state that the operation is for; a map's in the order of its keys. */
  def timestamps(op: String): Seq[Long] = (op.split(' ').head match {
    case "put" | "get" => timestampOf(backend.timestampedValue[Long](one))
    case "add" | "all" => backend.timestampedList[Long](many).timestamps.toSeq
    case "sum" | "total" => timestampOf(backend.timestampedValue[Long](sum))
    case _ =>
      val cursor = backend.timestampedMap[String, Long](named).cursor(few = false)
      Iterator
        .continually(cursor)
        .takeWhile(_.next())
        .map(at => at.key -> at.timestamp)
        .toSeq
        .sorted
        .map(_._2)
  }).map(policy.known)

  private def timestampOf(value: TimestampedValue[Long]): Seq[Long] =
    if (value.find()) Seq(value.timestamp) else Nil

  private def done(action: Unit): String = s"$action"

  private def shown(value: Any): String = if (value == null) "-" else s"$value"
}

class HeapGoldenTtlSuite extends GoldenTtlSuite with HeapFixture
class RocksDBGoldenTtlSuite extends GoldenTtlSuite with RocksDBFixture
