package io.pillarbox.state

import scala.collection.mutable

import io.pillarbox.api.StateTtl._
import io.pillarbox.api.{MapState, ScalaSerializers, StateTtl, TimeDomain}
import io.pillarbox.state.EventTimeTtlModelSuite._
import io.pillarbox.state.ScalaHandles._
import io.pillarbox.state.heap.HeapFixture
import io.pillarbox.state.rocksdb.RocksDBFixture
import io.pillarbox.testing.FewAndMany
import org.scalacheck.Gen
import org.scalactic.anyvals.PosInt
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/**
 * Event-time TTL, which Flink has not, against a plain model, over random records, watermarks and restarts.
 */
abstract class EventTimeTtlModelSuite(few: PosInt, many: PosInt)
    extends AnyFunSuite
    with StateFixture
    with ScalaCheckPropertyChecks
    with FewAndMany {

  for {
    update <- Seq[Update](Update.ON_CREATE_AND_WRITE, Update.ON_READ_AND_WRITE)
    sweeps <- Seq(true, false)
  }
    random(s"$update, clean-up $sweeps: what is seen is what the model holds", few, many) { scripts =>
      val ttl = TestState.ttl(Ttl, update, timeDomain = TimeDomain.EVENT_TIME)
      forAll(steps, minSuccessful(scripts))(run(ttl, sweeps, _))
    }

  private def run(ttl: StateTtl, sweeps: Boolean, steps: List[Step]): Unit = {
    val model = new Model(ttl.update == Update.ON_READ_AND_WRITE)
    var subject =
      new Subject(ttl, openBackend(ScalaSerializers.long, newClock(model.watermark), sweeps = sweeps))
    try
      steps.foreach {
        case Advance(by) =>
          model.watermark += by
          subject.clock.watermark = model.watermark
        case Restart =>
          val bytes = snapshotOf(subject.backend)
          subject.backend.close()
          val clock = newClock(model.watermark)
          subject =
            new Subject(ttl, restored(openBackend(ScalaSerializers.long, clock, sweeps = sweeps), bytes))
        case record: Record => assert(subject(record) == model(record), s"after $record")
      }
    finally subject.backend.close()
  }

  private def newClock(now: Long): ManualClock = {
    val clock = new ManualClock
    clock.watermark = now
    clock
  }

  private final class Subject(ttl: StateTtl, val backend: KeyedStateBackend[Long]) {
    val clock: ManualClock = backend.clock.asInstanceOf[ManualClock]
    private val values = backend.getOrCreate(value.living(Some(ttl)))
    private val lists = backend.getOrCreate(list.living(Some(ttl)))
    private val maps = backend.getOrCreate(map.living(Some(ttl)))

    def apply(record: Record): String = {
      clock.recordTimestamp = record.timestamp
      backend.setCurrentKey(record.key)
      record.access match {
        case Put(v) => done(values.update(v))
        case Get => s"${Option(values.value())}"
        case Add(v) => done(lists.add(v))
        case Elements => lists.get().mkString(",")
        case MapPut(k, v) => done(maps.put(k, v))
        case MapGet(k) => s"${Option(maps.asInstanceOf[MapState[String, Any]].get(k))}"
        case Entries => maps.entries.map(e => s"${e.getKey}=${e.getValue}").toSeq.sorted.mkString(",")
        case MapEmpty => s"${maps.isEmpty}"
        case Clear => done(Seq(values, lists, maps).foreach(_.clear()))
      }
    }
  }
}

class HeapEventTimeTtlModelSuite extends EventTimeTtlModelSuite(200, 1000) with HeapFixture

class RocksDBEventTimeTtlModelSuite extends EventTimeTtlModelSuite(6, 60) with RocksDBFixture

private object EventTimeTtlModelSuite {
  final val Ttl = 10L

  sealed trait Step
  final case class Advance(by: Long) extends Step
  case object Restart extends Step
  final case class Record(key: Long, timestamp: Long, access: Access) extends Step

  sealed trait Access
  final case class Put(value: String) extends Access
  case object Get extends Access
  final case class Add(value: String) extends Access
  case object Elements extends Access
  final case class MapPut(key: String, value: Long) extends Access
  final case class MapGet(key: String) extends Access
  case object Entries extends Access
  case object MapEmpty extends Access
  case object Clear extends Access

  def done(action: Unit): String = s"$action"

  private val name = Gen.oneOf("a", "b", "c")

  private val access: Gen[Access] = Gen.frequency(
    3 -> name.map(Put),
    3 -> Gen.const(Get),
    4 -> name.map(Add),
    3 -> Gen.const(Elements),
    4 -> Gen.zip(name, Gen.choose(0L, 9L)).map(MapPut.tupled),
    2 -> name.map(MapGet),
    2 -> Gen.const(Entries),
    1 -> Gen.const(MapEmpty),
    1 -> Gen.const(Clear)
  )

  private val step: Gen[Step] = Gen.frequency(
    10 -> Gen.zip(Gen.choose(0L, 2L), Gen.choose(0L, 80L), access).map(Record.tupled),
    3 -> Gen.choose(1L, 8L).map(Advance),
    1 -> Gen.const(Restart)
  )

  val steps: Gen[List[Step]] = Gen.choose(1, 80).flatMap(Gen.listOfN(_, step))

  /** Something with the time of its last use. */
  private final class Timestamped[A](val content: A, var time: Long)

  /**
   * The rules and nothing else: the later of record and stored, dead once time + ttl is not after the
   * watermark.
   */
  final class Model(renewsOnRead: Boolean) {
    var watermark = 0L
    private val values = mutable.Map.empty[Long, Timestamped[String]]
    private val lists = mutable.Map.empty[Long, Vector[Timestamped[String]]].withDefaultValue(Vector.empty)
    private val maps = mutable.Map.empty[(Long, String), Timestamped[Long]]

    def apply(record: Record): String = {
      import record.{key, timestamp}
      dropDead()
      record.access match {
        case Put(v) => done(values(key) = stamped(v, timestamp, values.get(key)))
        case Get => s"${values.get(key).map(read(_, timestamp))}"
        case Add(v) => done(lists(key) = lists(key) :+ new Timestamped(v, timestamp))
        case Elements => lists(key).map(read(_, timestamp)).mkString(",")
        case MapPut(k, v) => done(maps((key, k)) = stamped(v, timestamp, maps.get((key, k))))
        case MapGet(k) => s"${maps.get((key, k)).map(read(_, timestamp))}"
        case Entries => mapOf(key).map { case (k, v) => s"$k=${read(v, timestamp)}" }.sorted.mkString(",")
        case MapEmpty => s"${mapOf(key).isEmpty}"
        case Clear => done(clear(key))
      }
    }

    private def mapOf(key: Long): Seq[(String, Timestamped[Long])] =
      maps.toSeq.collect { case ((`key`, k), v) => (k, v) }

    private def clear(key: Long): Unit = {
      values -= key
      lists -= key
      maps.filterInPlace((of, _) => of._1 != key): Unit
    }

    private def stamped[A](content: A, timestamp: Long, stored: Option[Timestamped[A]]): Timestamped[A] =
      new Timestamped(content, stored.fold(timestamp)(old => math.max(old.time, timestamp)))

    private def read[A](found: Timestamped[A], timestamp: Long): A = {
      if (renewsOnRead) found.time = math.max(found.time, timestamp)
      found.content
    }

    private def dropDead(): Unit = {
      def lives(what: Timestamped[_]): Boolean = what.time + Ttl > watermark
      values.filterInPlace((_, v) => lives(v))
      lists.mapValuesInPlace((_, all) => all.filter(lives))
      maps.filterInPlace((_, v) => lives(v)): Unit
    }
  }
}
