package io.pillarbox.state

import java.nio.file.Path
import java.util.ConcurrentModificationException

import scala.collection.mutable

import io.pillarbox.api.{ListState, MapState, ReducingState, Serializers, StateTtl, TimeDomain, ValueState}
import io.pillarbox.state.ScalaHandles._
import io.pillarbox.state.heap.HeapFixture
import io.pillarbox.state.rocksdb.RocksDBKeyedStateBackend
import io.pillarbox.state.rocksdb.store.RocksDBConfig
import io.pillarbox.testing.{FewAndMany, TestDisk}
import org.scalacheck.{Gen, Shrink}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.tags.Slow
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/**
 * Random operations, commits, snapshots and crashes; after each crash another backend, of either kind, goes
 * on from the last snapshot and the logs after it. Every read must be that of the plain model.
 */
@Slow
class StateReplayProperties
    extends AnyFunSuite
    with ScalaCheckPropertyChecks
    with FewAndMany
    with HeapFixture {
  import StateReplayProperties._

  private val ttls: Seq[(String, Option[StateTtl])] = Seq("no TTL" -> None) ++ (for {
    time <- Seq(TimeDomain.PROCESSING_TIME, TimeDomain.EVENT_TIME)
    update <- Seq(StateTtl.Update.ON_CREATE_AND_WRITE, StateTtl.Update.ON_READ_AND_WRITE)
  } yield s"$time, $update" -> Some(
    TestState.ttl(100L, update, StateTtl.Visibility.NEVER_RETURN_EXPIRED, time)
  ))

  for ((name, ttl) <- ttls) {
    random(s"snapshot and logs give the same state as the model, heap to heap ($name)", 20, 100) { count =>
      forAll(scripts(rocksDB = false), minSuccessful(count))(script => new Run(ttl).run(script))
    }

    random(s"snapshot and logs give the same state, heap to RocksDB and back ($name)", 3, 12) { count =>
      forAll(scripts(rocksDB = true), minSuccessful(count))(script => new Run(ttl).run(script))
    }
  }

  private final class Run(ttl: Option[StateTtl]) {
    private val clock = new ManualClock(1000L)
    clock.watermark = 1000L
    private val directories = mutable.ArrayBuffer.empty[Path]
    private var backend: KeyedStateBackend[String] = open(rocksDB = false)
    private var handles = new Handles
    private var model = StateModel()
    private var committed = StateModel()
    private val chain = mutable.ArrayBuffer.empty[Array[Byte]]

    private final class Handles {
      val v: ValueState[String] = backend.getOrCreate(value.living(ttl))
      val l: ListState[String] = backend.getOrCreate(list.living(ttl))
      val m: MapState[String, Long] = backend.getOrCreate(map.living(ttl))
      val s: ReducingState[Long] = backend.getOrCreate(sum.living(ttl))
    }

    def run(script: List[Step]): Unit =
      try {
        script.foreach(step)
        keys.foreach { key =>
          Seq(ReadValue, ReadList, ReadMap, ReadSum).foreach(op => step(OnKey(key, 0, op)))
        }
      } finally {
        backend.close()
        directories.foreach(TestDisk.delete)
      }

    private def step(step: Step): Unit = step match {
      case Advance(millis) =>
        clock.processingTime += millis
        clock.watermark += millis
      case Commit => commit()
      case Snapshot =>
        commit()
        chain.clear()
        chain += snapshotOf(backend)
      case Crash(toRocksDB) =>
        backend.close()
        backend = open(toRocksDB)
        restored(backend, chain.toSeq: _*)
        handles = new Handles
        model = committed
      case OnKey(key, lateness, op) =>
        clock.recordTimestamp = clock.watermark - lateness
        backend.setCurrentKey(key)
        model = model.updated(key, act(op, model(key), new StateModel.Rules(ttl, clock)))
    }

    private def commit(): Unit = {
      chain += bytesOf(backend.commit())
      committed = model
      backend match {
        case database: RocksDBKeyedStateBackend[_] if chain.size % 3 == 1 => database.writeCache()
        case _ => ()
      }
    }

    private def act(op: Op, one: StateModel.OneKey, rules: StateModel.Rules): StateModel.OneKey = op match {
      case Update(text) =>
        handles.v.update(text)
        one.copy(value = Some((text, rules.timestamp(one.value))))
      case ClearValue =>
        handles.v.clear()
        one.copy(value = None)
      case ReadValue =>
        val alive = one.value.filter(rules.isAlive)
        assert(Option(handles.v.value()) == alive.map(_._1))
        one.copy(value = alive.map(rules.afterRead))
      case Add(texts) =>
        handles.l.addAll(texts)
        one.copy(list = one.list ++ texts.map(text => (text, rules.timestamp(None))))
      case Replace(texts) =>
        handles.l.update(texts)
        one.copy(list = texts.map(text => (text, rules.timestamp(None))).toVector)
      case ReadList =>
        val alive = one.list.filter(rules.isAlive)
        assert(handles.l.get().toVector == alive.map(_._1))
        one.copy(list = alive.map(rules.afterRead))
      case _ => actOnMapOrSum(op, one, rules)
    }

    private def actOnMapOrSum(op: Op, one: StateModel.OneKey, rules: StateModel.Rules): StateModel.OneKey =
      op match {
        case Put(key, n) =>
          handles.m.put(key, n)
          one.copy(map = one.map.updated(key, (n, rules.timestamp(one.map.get(key)))))
        case Remove(key) =>
          handles.m.remove(key)
          one.copy(map = one.map - key)
        case Get(key) =>
          val alive = one.map.get(key).filter(rules.isAlive)
          assert(Option((handles.m: MapState[String, _]).get(key)) == alive.map(_._1))
          one.copy(map = alive.fold(one.map - key)(entry => one.map.updated(key, rules.afterRead(entry))))
        case IsEmpty =>
          assert(handles.m.isEmpty == !one.map.values.exists(rules.isAlive))
          one
        case ReadMap =>
          val alive = one.map.filter(entry => rules.isAlive(entry._2))
          assert(handles.m.entries.map(e => e.getKey -> e.getValue).toMap == alive.map(e => e._1 -> e._2._1))
          one.copy(map = alive.map(entry => entry._1 -> rules.afterRead(entry._2)))
        case WalkMap(acts) => one.copy(map = new Walk(one.map, rules).run(acts))
        case ClearMap =>
          handles.m.clear()
          one.copy(map = Map.empty)
        case AddSum(n) =>
          handles.s.add(n)
          val alive = one.sum.filter(rules.isAlive)
          one.copy(sum = Some((alive.fold(n)(_._1 + n), rules.timestamp(one.sum))))
        case _ =>
          val alive = one.sum.filter(rules.isAlive)
          assert(Option((handles.s: ReducingState[_]).get()) == alive.map(_._1))
          one.copy(sum = alive.map(rules.afterRead))
      }

    /** Iterates over a map and changes it meanwhile, as the iterator allows. */
    private final class Walk(before: Map[String, StateModel.Timestamped[Long]], rules: StateModel.Rules) {
      private var (map, dead) = before.partition(entry => rules.isAlive(entry._2))
      private var toCome = map.keySet
      private var isCut = false
      private val cursor = handles.m.entries

      def run(acts: List[WalkAct]): Map[String, StateModel.Timestamped[Long]] = {
        val plan = acts.iterator
        while (!isCut && hasNext) {
          val entry = cursor.next()
          assert(map.get(entry.getKey).map(_._1).contains(entry.getValue) && toCome(entry.getKey))
          toCome -= entry.getKey
          map = map.updated(entry.getKey, rules.afterRead(map(entry.getKey)))
          if (plan.hasNext) act(plan.next(), entry)
        }
        assert(isCut || toCome.isEmpty)
        map
      }

      /** An expired entry that was removed already when it was put anew was a new one. */
      private def hasNext: Boolean =
        try cursor.hasNext
        catch {
          case _: ConcurrentModificationException if revived =>
            isCut = true
            false
        }

      private var revived = false

      private def act(act: WalkAct, entry: java.util.Map.Entry[String, Long]): Unit = act match {
        case LookAhead => cursor.hasNext: Unit
        case SetValue(n) =>
          assert(entry.setValue(n) == map(entry.getKey)._1)
          write(entry.getKey, n)
        case RemoveIt =>
          cursor.remove()
          map -= entry.getKey
        case Overwrite(key, n) if map.contains(key) || dead.contains(key) =>
          handles.m.put(key, n)
          write(key, n)
        case Overwrite(_, _) => ()
      }

      private def write(key: String, n: Long): Unit = {
        map = map.updated(key, (n, rules.timestamp(map.get(key).orElse(dead.get(key)))))
        if (dead.contains(key)) {
          revived = true
          dead -= key
          if (rules.isAlive(map(key))) toCome += key
        }
      }
    }

    private def open(rocksDB: Boolean): KeyedStateBackend[String] =
      if (!rocksDB) openBackend(Serializers.ofString, clock)
      else {
        directories += TestDisk.newDirectory("pillarbox-replay")
        val config = RocksDBConfig(
          directories.last,
          memoryLimit = 32L << 20,
          cacheBytes = 16 << 10,
          listChunkBytes = 1 + directories.size * 16
        )
        new RocksDBKeyedStateBackend(Serializers.ofString, clock, config)
      }
  }
}

object StateReplayProperties {
  private val keys = ('a' to 'f').map(_.toString)

  sealed trait Step
  final case class Advance(millis: Int) extends Step
  case object Commit extends Step
  case object Snapshot extends Step
  final case class Crash(toRocksDB: Boolean) extends Step

  /** An operation on a record of this key, which is so many milliseconds late. */
  final case class OnKey(key: String, lateness: Int, op: Op) extends Step

  sealed trait Op
  final case class Update(text: String) extends Op
  case object ClearValue extends Op
  case object ReadValue extends Op
  final case class Add(texts: List[String]) extends Op
  final case class Replace(texts: List[String]) extends Op
  case object ReadList extends Op
  final case class Put(key: String, n: Long) extends Op
  final case class Remove(key: String) extends Op
  final case class Get(key: String) extends Op
  case object IsEmpty extends Op
  case object ReadMap extends Op
  case object ClearMap extends Op
  final case class WalkMap(acts: List[WalkAct]) extends Op
  final case class AddSum(n: Long) extends Op
  case object ReadSum extends Op

  /** What is done between two steps of a map's iterator. */
  sealed trait WalkAct
  case object LookAhead extends WalkAct
  case object RemoveIt extends WalkAct
  final case class SetValue(n: Long) extends WalkAct
  final case class Overwrite(key: String, n: Long) extends WalkAct

  private val text = Gen.resize(6, Gen.alphaStr)
  private val userKey = Gen.oneOf("p", "q", "r", "s")
  private val texts = Gen.choose(0, 4).flatMap(Gen.listOfN(_, text))

  private val number = Gen.choose(0L, 99L)
  private val walkAct: Gen[WalkAct] = Gen.frequency(
    1 -> Gen.const(LookAhead),
    1 -> Gen.const(RemoveIt),
    1 -> number.map(SetValue(_)),
    3 -> Gen.zip(userKey, number).map { case (key, n) => Overwrite(key, n) }
  )

  private val op: Gen[Op] = Gen.frequency(
    4 -> text.map(Update(_)),
    1 -> Gen.const(ClearValue),
    2 -> Gen.const(ReadValue),
    4 -> texts.map(Add(_)),
    1 -> texts.map(Replace(_)),
    2 -> Gen.const(ReadList),
    5 -> Gen.zip(userKey, Gen.choose(0L, 99L)).map { case (key, n) => Put(key, n) },
    2 -> userKey.map(Remove(_)),
    2 -> userKey.map(Get(_)),
    1 -> Gen.const(IsEmpty),
    1 -> Gen.const(ReadMap),
    3 -> Gen.listOfN(4, walkAct).map(WalkMap(_)),
    1 -> Gen.const(ClearMap),
    3 -> Gen.choose(0L, 99L).map(AddSum(_)),
    1 -> Gen.const(ReadSum)
  )

  private def step(rocksDB: Boolean): Gen[Step] = Gen.frequency(
    60 -> Gen.zip(Gen.oneOf(keys), Gen.choose(-30, 60), op).map { case (key, lateness, o) =>
      OnKey(key, lateness, o)
    },
    8 -> Gen.choose(1, 60).map(Advance(_)),
    6 -> Gen.const(Commit),
    2 -> Gen.const(Snapshot),
    3 -> (if (rocksDB) Gen.oneOf(true, false) else Gen.const(false)).map(Crash(_))
  )

  private def scripts(rocksDB: Boolean): Gen[List[Step]] =
    Gen.choose(20, 250).flatMap(Gen.listOfN(_, step(rocksDB)))

  /** A script without some of its steps is a script. */
  private implicit val shrinkScript: Shrink[List[Step]] = Shrink.withLazyList { script =>
    val half = script.size / 2
    val halves = if (half == 0) LazyList.empty else LazyList(script.take(half), script.drop(half))
    halves #::: script.indices.to(LazyList).map(i => script.patch(i, Nil, 1))
  }
}
