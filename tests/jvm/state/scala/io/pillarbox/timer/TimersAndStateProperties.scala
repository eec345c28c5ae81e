package io.pillarbox.timer

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.nio.file.{Files, Path}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import io.pillarbox.api.{ListState, MapState, Serializers, TimeDomain}
import io.pillarbox.state.ScalaHandles._
import io.pillarbox.state._
import io.pillarbox.state.heap.HeapKeyedStateBackend
import io.pillarbox.state.rocksdb.{RocksDBFixture, RocksDBKeyedStateBackend}
import io.pillarbox.testing.FewAndMany
import org.scalacheck.{Gen, Shrink}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.tags.Slow
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/**
 * Timers and state of one database, in random turns, with walks, commits, checkpoints and crashes, beside a
 * plain model. Memory is so small that writes and changes leave it all the time.
 */
@Slow
class TimersAndStateProperties
    extends AnyFunSuite
    with ScalaCheckPropertyChecks
    with FewAndMany
    with RocksDBFixture {
  import TimersAndStateProperties._

  override protected def cacheBytes: Int = 16 << 10

  override protected def listChunkBytes: Int = 500

  random(
    "timers and state of one database are what a plain model has, over checkpoints, logs and crashes",
    few = 6,
    many = 100
  )(times => forAll(script, minSuccessful(times))(steps => new Run().run(steps)))

  private final class Run {
    private var world = new World(openAt(newDirectory(), Serializers.ofString))
    private var model = Model()
    private var committed = Model()

    /** All commits, of state and timers; and which of them came after the checkpoint. */
    private val logs = mutable.ArrayBuffer.empty[(Array[Byte], Array[Byte])]
    private var checkpoint = Option.empty[(Path, Int)]

    def run(steps: List[Step]): Unit =
      try {
        steps.foreach(step)
        keys.foreach(key => Seq(Walk(key), Listed(Kinds.head, key), Listed(Kinds.last, key)).foreach(step))
        Kinds.foreach(kind => step(Fire(kind, Long.MaxValue)))
      } finally world.close()

    private def step(step: Step): Unit = step match {
      case onState: OnState => act(onState)
      case Register(kind, key, time) =>
        world.register(kind, key, time)
        model = model.withTimers(kind, _ + (key -> time))
      case Unregister(kind, key, time) =>
        world.unregister(kind, key, time)
        model = model.withTimers(kind, _ - (key -> time))
      case Fire(kind, time) =>
        val due = model.timers(kind).filter(_._2 <= time)
        val fired = world.fire(kind, time)
        assert(fired.toSet == due && fired.size == due.size && fired.map(_._2) == fired.map(_._2).sorted)
        model = model.withTimers(kind, _ -- due)
      case Listed(kind, key) =>
        assert(world.timersOf(kind, key) == model.timers(kind).filter(_._1 == key).map(_._2).toSeq.sorted)
      case Commit => commit()
      case Checkpoint =>
        commit()
        val target = newDirectory().resolve("checkpoint")
        if (world.checkpoint(target)) checkpoint = Some((target, logs.size))
      case Crash(how) => crash(how)
    }

    private def act(step: OnState): Unit = {
      world.backend.setCurrentKey(step.key)
      step match {
        case Put(key, entry, n) =>
          world.m.put(entry, n)
          model = model.withMap(key, _.updated(entry, n))
        case Remove(key, entry) =>
          world.m.remove(entry)
          model = model.withMap(key, _ - entry)
        case Append(key, text) =>
          world.l.add(text)
          model = model.copy(lists = model.lists.updated(key, model.lists(key) :+ text))
        case ClearAll(key) =>
          world.m.clear()
          world.l.clear()
          model = model.withMap(key, _ => Map.empty).copy(lists = model.lists - key)
        case Walk(key) =>
          assert(world.m.entries.map(e => e.getKey -> e.getValue).toMap == model.maps(key))
          assert(world.l.get().toVector == model.lists(key))
      }
    }

    private def commit(): Unit = {
      logs += ((bytesOf(world.backend.commit()), world.committedTimers()))
      committed = model
    }

    private def crash(how: Restart): Unit = {
      world.close()
      val from = if (how == FromCheckpoint) checkpoint else None
      world = new World(from match {
        case Some((copied, _)) => openAt(copyOf(copied), Serializers.ofString)
        case None if how == OnHeap =>
          new HeapKeyedStateBackend(Serializers.ofString, new ManualClock)
        case None => openAt(newDirectory(), Serializers.ofString)
      })
      logs.drop(from.fold(0)(_._2)).foreach { case (state, timers) => world.restore(state, timers) }
      world.claim()
      model = committed
    }

    private def copyOf(directory: Path): Path = {
      val target = newDirectory()
      val files = Files.list(directory)
      try files.iterator.asScala.foreach(file => Files.copy(file, target.resolve(file.getFileName)): Unit)
      finally files.close()
      target
    }
  }

  private final class World(val backend: KeyedStateBackend[String]) {
    private val database = Option(backend).collect { case inDatabase: RocksDBKeyedStateBackend[_] =>
      inDatabase
    }
    private val queues = database.fold[TimerQueues](TimerQueues.Heap)(found =>
      TimerQueues.inDatabase(found.store, cacheCapacity = 3, writeBytes = 500, changeBytes = 1000)
    )
    private val timers = new InternalTimerServiceImpl[String](backend, queues, trackChanges = true)
    private var handles = Option.empty[(MapState[String, Long], ListState[String])]

    def m: MapState[String, Long] = claim()._1

    def l: ListState[String] = claim()._2

    def claim(): (MapState[String, Long], ListState[String]) = {
      if (handles.isEmpty) handles = Some((backend.getOrCreate(map), backend.getOrCreate(list)))
      handles.get
    }

    def register(kind: TimeDomain, key: String, time: Long): Unit = {
      backend.setCurrentKey(key)
      if (kind == TimeDomain.EVENT_TIME) timers.register(TimeDomain.EVENT_TIME, Namespace.Void, time)
      else timers.register(TimeDomain.PROCESSING_TIME, Namespace.Void, time)
    }

    def unregister(kind: TimeDomain, key: String, time: Long): Unit = {
      backend.setCurrentKey(key)
      if (kind == TimeDomain.EVENT_TIME) timers.delete(TimeDomain.EVENT_TIME, Namespace.Void, time)
      else timers.delete(TimeDomain.PROCESSING_TIME, Namespace.Void, time)
    }

    def fire(kind: TimeDomain, time: Long): Seq[(String, Long)] =
      Iterator
        .continually(timers.pollDue(kind, time))
        .takeWhile(_ != null)
        .map(t => t.key -> t.timestamp)
        .toVector

    def timersOf(kind: TimeDomain, key: String): Seq[Long] = {
      backend.setCurrentKey(key)
      timers.timersOfCurrentKey(kind).map(_.timestamp)
    }

    def committedTimers(): Array[Byte] = {
      val out = new ByteArrayOutputStream
      timers.commit(out)
      out.toByteArray
    }

    def restore(state: Array[Byte], changes: Array[Byte]): Unit = {
      restored(backend, state): Unit
      timers.restore(new ByteArrayInputStream(changes), "timers")
    }

    /** False on the heap, which has no such thing. */
    def checkpoint(target: Path): Boolean = {
      database.foreach { found =>
        timers.flush()
        found.checkpoint(target)
      }
      database.isDefined
    }

    def close(): Unit = {
      timers.close()
      backend.close()
    }
  }
}

object TimersAndStateProperties {
  private val Kinds = Seq[TimeDomain](TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME)

  private val keys = (0 until 12).map(i => s"key $i")

  private final case class Model(
      maps: Map[String, Map[String, Long]] = Map.empty.withDefaultValue(Map.empty),
      lists: Map[String, Vector[String]] = Map.empty.withDefaultValue(Vector.empty),
      timers: Map[TimeDomain, Set[(String, Long)]] = Map.empty.withDefaultValue(Set.empty)
  ) {
    def withMap(key: String, change: Map[String, Long] => Map[String, Long]): Model =
      copy(maps = maps.updated(key, change(maps(key))))

    def withTimers(kind: TimeDomain, change: Set[(String, Long)] => Set[(String, Long)]): Model =
      copy(timers = timers.updated(kind, change(timers(kind))))
  }

  private sealed trait Restart
  private case object FromCheckpoint extends Restart
  private case object FromLogs extends Restart
  private case object OnHeap extends Restart

  private sealed trait Step
  private final case class Register(kind: TimeDomain, key: String, time: Long) extends Step
  private final case class Unregister(kind: TimeDomain, key: String, time: Long) extends Step
  private final case class Fire(kind: TimeDomain, time: Long) extends Step
  private final case class Listed(kind: TimeDomain, key: String) extends Step
  private case object Commit extends Step
  private case object Checkpoint extends Step
  private final case class Crash(how: Restart) extends Step

  private sealed trait OnState extends Step { def key: String }
  private final case class Put(key: String, entry: String, n: Long) extends OnState
  private final case class Remove(key: String, entry: String) extends OnState
  private final case class Append(key: String, text: String) extends OnState
  private final case class ClearAll(key: String) extends OnState
  private final case class Walk(key: String) extends OnState

  private val aKey = Gen.oneOf(keys)
  private val kind = Gen.oneOf(Kinds)
  private val entry = Gen.choose(0, 30).map(i => s"entry $i")
  private val time =
    Gen.frequency(5 -> Gen.choose(-20L, 60L), 1 -> Gen.oneOf(Long.MinValue + 1, Long.MaxValue))
  private val text = Gen.choose(0, 400).map("x" * _)

  private val step: Gen[Step] = Gen.frequency(
    20 -> Gen.zip(kind, aKey, time).map((Register.apply _).tupled),
    6 -> Gen.zip(kind, aKey, time).map((Unregister.apply _).tupled),
    4 -> Gen.zip(kind, Gen.choose(-20L, 60L)).map((Fire.apply _).tupled),
    2 -> Gen.zip(kind, aKey).map((Listed.apply _).tupled),
    20 -> Gen.zip(aKey, entry, Gen.choose(0L, 99L)).map((Put.apply _).tupled),
    5 -> Gen.zip(aKey, entry).map((Remove.apply _).tupled),
    10 -> Gen.zip(aKey, text).map((Append.apply _).tupled),
    1 -> aKey.map(ClearAll(_)),
    8 -> aKey.map(Walk(_)),
    3 -> Gen.const(Commit),
    1 -> Gen.const(Checkpoint),
    1 -> Gen.oneOf(FromCheckpoint, FromLogs, OnHeap).map(Crash(_))
  )

  private val script: Gen[List[Step]] = Gen.choose(50, 600).flatMap(Gen.listOfN(_, step))

  private implicit val noShrink: Shrink[List[Step]] = Shrink.shrinkAny
}
