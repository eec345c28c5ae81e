package io.pillarbox.timer

import scala.util.Random

import io.pillarbox.api.{Serializers, TimeDomain}
import io.pillarbox.queue.{MemoryOrderedByteStore, RocksDBFixture}
import io.pillarbox.state.Namespace
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

/** What the timer service promises, whatever its queues. */
abstract class InternalTimerServiceContract extends AnyFunSuite {
  protected def newQueues(): TimerQueues

  private def fixture() = TimerFixture.ofLongs(newQueues())

  private val windowOne = Namespace.of(Array[Byte](1))
  private val windowTwo = Namespace.of(Array[Byte](2))

  test("event-time timers fire in time order, up to and including the watermark") {
    val timers = fixture()
    for (time <- Random.shuffle((-50L until 50L).toList)) timers.event(time & 7, time)
    timers.advanceWatermark(10)
    assert(timers.takeFired() == (-50L to 10L).map(time => (time & 7, time)))
    timers.advanceWatermark(Long.MaxValue)
    assert(timers.takeFired() == (11L until 50L).map(time => (time & 7, time)))
    assert(timers.service.numTimers(TimeDomain.EVENT_TIME) == 0)
  }

  test("the current key is that of the timer when it fires, and its namespace is kept") {
    val timers = fixture()
    timers.event(1, 10, windowTwo)
    timers.event(2, 11, windowOne)
    timers.onTimer = timer => assert(timers.currentKey == timer.key)
    timers.advanceWatermark(20)
    assert(timers.fired.map(_.namespace) == Seq(windowTwo, windowOne))
  }

  test("a timer is one by key, namespace, time and kind") {
    val timers = fixture()
    for (_ <- 1 to 3; key <- 1L to 2L; time <- 5L to 6L; namespace <- Seq(windowOne, windowTwo))
      timers.event(key, time, namespace)
    timers.processing(1, 5)
    assert(timers.service.numTimers(TimeDomain.EVENT_TIME) == 8)
    assert(timers.service.numTimers(TimeDomain.PROCESSING_TIME) == 1)
    assert(timers.service.estimatedTimers() == 9)
    timers.advanceWatermark(10)
    assert(timers.takeFired().size == 8)
  }

  test("a deleted timer does not fire, and deleting what is not there does nothing") {
    val timers = fixture()
    timers.event(1, 5)
    timers.event(1, 6)
    timers.processing(1, 5)
    timers.service.delete(TimeDomain.EVENT_TIME, Namespace.Void, 5)
    timers.service.delete(TimeDomain.EVENT_TIME, windowOne, 6)
    timers.service.delete(TimeDomain.PROCESSING_TIME, Namespace.Void, 99)
    timers.currentKey = 2
    timers.service.delete(TimeDomain.EVENT_TIME, Namespace.Void, 6)
    timers.advanceWatermark(10)
    timers.moveClock(10)
    assert(timers.takeFired() == Seq((1L, 6L), (1L, 5L)))
  }

  test("the earliest and the latest times are times like any other; none is due where no time is known") {
    val timers = fixture()
    Seq(Long.MinValue, 0L, Long.MaxValue).foreach(timers.event(1, _))
    timers.advanceWatermark(Long.MinValue)
    assert(timers.takeFired().isEmpty)
    timers.advanceWatermark(0)
    assert(timers.takeFired().map(_._2) == Seq(Long.MinValue, 0L))
    assert(timers.service.isDue(TimeDomain.EVENT_TIME, Long.MaxValue))
    timers.advanceWatermark(Long.MaxValue)
    assert(timers.takeFired().map(_._2) == Seq(Long.MaxValue))
    assert(!timers.service.isDue(TimeDomain.EVENT_TIME, Long.MaxValue))
  }

  test("a timer may register more, and those that are due fire in the same round") {
    val timers = fixture()
    timers.onTimer = timer =>
      timer.timestamp match {
        case 3 => timers.service.register(TimeDomain.EVENT_TIME, Namespace.Void, 4)
        case 4 => Seq(1L, 50L).foreach(timers.service.register(TimeDomain.EVENT_TIME, Namespace.Void, _))
        case _ => ()
      }
    timers.event(1, 3)
    timers.advanceWatermark(10)
    assert(timers.takeFired().map(_._2) == Seq(3L, 4L, 1L))
    assert(timers.service.nextTimestamp(TimeDomain.EVENT_TIME) == 50)
  }

  test("timers of one time fire in an order that registration and restarts don't change") {
    def orderOf(keys: Seq[Long], queues: TimerQueues, viaSnapshot: Boolean) = {
      val timers = TimerFixture.ofLongs(queues)
      for (key <- keys; namespace <- Seq(windowTwo, Namespace.Void, windowOne))
        timers.event(key, 7, namespace)
      val firing =
        if (!viaSnapshot) timers
        else {
          val restored = fixture()
          restored.restore(timers.snapshot())
          restored
        }
      firing.advanceWatermark(7)
      firing.fired.map(timer => (timer.key, timer.namespace)).toSeq
    }
    val keys = (0L until 40L).map(_ * 7919)
    val expected = orderOf(keys, TimerQueues.Heap, viaSnapshot = false)
    for (seed <- 1 to 5; viaSnapshot <- Seq(false, true))
      assert(orderOf(new Random(seed).shuffle(keys), newQueues(), viaSnapshot) == expected)
  }

  test("the timers of a key are listed in time order") {
    val timers = fixture()
    for (key <- 0L until 20L; time <- Seq(30L, 10L, 20L)) {
      timers.event(key, time)
      timers.processing(key, time + 1)
    }
    for (_ <- 1 to 2) {
      timers.currentKey = 7
      val listed = timers.service.timersOfCurrentKey(TimeDomain.EVENT_TIME)
      assert(listed.map(timer => (timer.key, timer.timestamp)) == Seq((7L, 10L), (7L, 20L), (7L, 30L)))
    }
    timers.event(7, 15)
    timers.service.delete(TimeDomain.EVENT_TIME, Namespace.Void, 30)
    assert(timers.service.timersOfCurrentKey(TimeDomain.EVENT_TIME).map(_.timestamp) == Seq(10L, 15L, 20L))
    assert(timers.service.timersOfCurrentKey(TimeDomain.PROCESSING_TIME).size == 3)
    timers.advanceWatermark(100)
    assert(timers.takeFired().size == 60)
    timers.currentKey = 8
    assert(timers.service.timersOfCurrentKey(TimeDomain.EVENT_TIME).isEmpty)
    assert(timers.service.timersOfCurrentKey(TimeDomain.PROCESSING_TIME).size == 3)
  }

  test("every timer is visited once with its key current") {
    val timers = fixture()
    for (key <- 0L until 30L) timers.event(key, key * 2)
    var seen = Set.empty[(Long, Long)]
    timers.service.forEachTimer(TimeDomain.EVENT_TIME) { timer =>
      assert(timers.currentKey == timer.key)
      seen += ((timer.key, timer.timestamp))
    }
    assert(seen == (0L until 30L).map(key => (key, key * 2)).toSet)
  }

  test("FLINK-38558: a mutable key that its owner changes after registering or receiving it harms no timer") {
    val timers = new TimerFixture(newQueues(), Serializers.ofBytes)
    val key = Array[Byte](1, 2, 3)
    timers.event(key, 10)
    timers.event(key, 20)
    key(0) = 99
    timers.currentKey = Array[Byte](1, 2, 3)
    timers.service.timersOfCurrentKey(TimeDomain.EVENT_TIME).foreach(_.key(1) = 77)
    timers.service.forEachTimer(TimeDomain.EVENT_TIME)(_.key(2) = 55)
    timers.onTimer = timer => timer.key(0) = 42
    timers.currentKey = Array[Byte](1, 2, 3)
    timers.service.delete(TimeDomain.EVENT_TIME, Namespace.Void, 10)
    timers.event(Array[Byte](1, 2, 3), 20)
    assert(timers.service.numTimers(TimeDomain.EVENT_TIME) == 1)
    var seen = Seq.empty[Byte]
    timers.onTimer = timer => seen = timer.key.toSeq
    timers.advanceWatermark(100)
    assert(seen == Seq[Byte](1, 2, 3))
  }

  test("a snapshot goes into queues of any kind, and into partitions that take some of its keys") {
    val timers = fixture()
    for (key <- 0L until 50L) {
      timers.event(key, key)
      timers.processing(key, 1000 + key)
    }
    timers.event(3, 9999, windowOne)
    val snapshot = timers.snapshot()
    for (queues <- Seq(TimerQueues.Heap, new TimerQueues.OverStores(_ => new MemoryOrderedByteStore, 128))) {
      val parts = Seq.fill(2)(TimerFixture.ofLongs(queues))
      for ((part, i) <- parts.zipWithIndex) part.restore(snapshot, _ % 2 == i)
      parts.foreach(part => part.advanceWatermark(Long.MaxValue))
      parts.foreach(part => part.moveClock(5000))
      assert(parts.map(_.fired.size).sum == 101 && parts.forall(_.fired.nonEmpty))
      assert(parts.flatMap(_.fired.filter(_.namespace == windowOne)).map(_.timestamp) == Seq(9999L))
      // Two partitions that become one.
      val merged = TimerFixture.ofLongs(queues)
      parts.foreach(part => part.fired.foreach(t => if (t.timestamp < 1000) part.event(t.key, t.timestamp)))
      parts.foreach(part => merged.restore(part.snapshot()))
      assert(merged.service.numTimers(TimeDomain.EVENT_TIME) == 50)
    }
  }

  test("timers of some keys are left out of what is restored") {
    val timers = fixture()
    for (key <- 0L until 20L) timers.event(key, key)
    val snapshot = timers.snapshot()
    timers.advanceWatermark(5)
    val (log, some) = (timers.commit(), fixture())
    Seq(snapshot, log).foreach { bytes =>
      some.restore(bytes, _ % 4 == 1)
    }
    some.advanceWatermark(Long.MaxValue)
    assert(some.fired.map(_.key).sorted == Seq(9L, 13L, 17L))
  }

  test("commits replayed after a snapshot give the same timers, over random changes") {
    val random = new Random(11)
    val timers = fixture()
    var logs = Vector(timers.snapshot())
    for (round <- 1 to 60) {
      for (_ <- 1 to random.nextInt(20)) {
        val (key, time) = (random.nextInt(6).toLong, round + random.nextInt(30).toLong)
        timers.currentKey = key
        random.nextInt(5) match {
          case 0 => timers.service.delete(TimeDomain.EVENT_TIME, Namespace.Void, time)
          case 1 => timers.service.delete(TimeDomain.PROCESSING_TIME, Namespace.Void, time)
          case 2 => timers.processing(key, time)
          case _ => timers.event(key, time)
        }
      }
      if (random.nextInt(3) == 0) timers.advanceWatermark(round.toLong)
      if (random.nextInt(3) == 0) timers.moveClock(round.toLong)
      logs :+= timers.commit()
      if (random.nextInt(10) == 0) logs = Vector(timers.snapshot())
    }
    val restored = fixture()
    logs.foreach(restored.restore(_))
    def all(fixture: TimerFixture[Long], kind: TimeDomain) =
      (0L until 6L).flatMap { key =>
        fixture.currentKey = key
        fixture.service.timersOfCurrentKey(kind).map(timer => (key, timer.timestamp))
      }
    for (kind <- Seq(TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME)) {
      assert(all(timers, kind).nonEmpty)
      assert(all(restored, kind) == all(timers, kind))
    }
  }

  test("a commit writes what changed, not what is there") {
    val timers = fixture()
    for (key <- 0L until 5000L) timers.event(key, key)
    timers.commit()
    assert(timers.commit().length < 100)
    timers.event(1, 77777)
    assert(timers.commit().length < 150)
  }
}

class HeapTimerServiceSuite extends InternalTimerServiceContract {
  override protected def newQueues(): TimerQueues = TimerQueues.Heap

  test("a service that tracks no changes refuses to commit") {
    val fixture = TimerFixture.ofLongs(TimerQueues.Heap)
    val service = new InternalTimerServiceImpl[Long](fixture.backend)
    assertThrows[UnsupportedOperationException](service.commit(new java.io.ByteArrayOutputStream))
  }
}

class StoreTimerServiceSuite extends InternalTimerServiceContract {
  override protected def newQueues(): TimerQueues =
    new TimerQueues.OverStores(_ => new MemoryOrderedByteStore, cacheCapacity = 3)
}

/**
 * Every queue in a column family of its own, with a cache so small that most of the work is the database's.
 */
class RocksDBTimerServiceSuite extends InternalTimerServiceContract with BeforeAndAfterAll {
  private lazy val database = new RocksDBFixture

  override protected def newQueues(): TimerQueues =
    new TimerQueues.OverStores(_ => database.newStoreOfItsOwn(), cacheCapacity = 3)

  override protected def afterAll(): Unit = database.close()

  test("timers are in the database after a flush and a restart, each kind in its own column family") {
    val databases = Map[TimeDomain, RocksDBFixture](
      TimeDomain.EVENT_TIME -> new RocksDBFixture,
      TimeDomain.PROCESSING_TIME -> new RocksDBFixture
    )
    def open() = TimerFixture.ofLongs(
      new TimerQueues.OverStores(timers => databases(timers.kind).newStore(), cacheCapacity = 4)
    )
    try {
      val timers = open()
      for (key <- 0L until 500L) {
        timers.event(key, key)
        timers.processing(key, key)
      }
      timers.advanceWatermark(99)
      timers.service.flush()
      databases.values.foreach(_.restart())
      val restarted = open()
      restarted.advanceWatermark(1000)
      assert(restarted.takeFired().map(_._2) == (100L until 500L))
      assert(restarted.service.numTimers(TimeDomain.PROCESSING_TIME) == 500)
    } finally databases.values.foreach(_.close())
  }
}
