package io.pillarbox.operator

import java.util.Comparator

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.api.{
  InputView,
  OutputTag,
  OutputView,
  SerializerSnapshot,
  Serializers,
  TimeDomain,
  TypeSerializer
}
import io.pillarbox.queue.MemoryOrderedByteStore
import io.pillarbox.state.heap.HeapKeyedStateBackend
import io.pillarbox.state.rocksdb.store.RocksDBConfig
import io.pillarbox.state.rocksdb.{RocksDBFixture, RocksDBKeyedStateBackend}
import io.pillarbox.state.{KeyedStateBackend, Namespace}
import io.pillarbox.timer._
import org.scalatest.funsuite.AnyFunSuite

/**
 * The cases of tests/golden on the schedules that Spark runs, with each backend and with targets that refuse.
 */
class GoldenOrderSuite extends AnyFunSuite with RocksDBFixture {
  import GoldenOrderSuite._

  private val backends = Seq[(String, EventClock => KeyedStateBackend[String], () => TimerQueues)](
    (
      "heap",
      clock => new HeapKeyedStateBackend(Serializers.ofString, clock),
      () => TimerQueues.Heap
    ),
    (
      "rocksdb",
      clock =>
        new RocksDBKeyedStateBackend(
          Serializers.ofString,
          clock,
          RocksDBConfig(newDirectory(), memoryLimit = 32L << 20, cacheBytes = 16 << 10)
        ),
      () => new TimerQueues.OverStores(_ => new MemoryOrderedByteStore, 2)
    )
  )

  private val groups = GoldenCases.all.groupBy(one => (one.timeSorted, one.clock)).values.toSeq

  test("there are cases of both orders") {
    assert(groups.flatten.count(_.timeSorted) > 40 && groups.flatten.count(!_.timeSorted) > 40)
  }

  for ((name, backend, queues) <- backends) {

    test(s"streams, $name") {
      groups.foreach { cases =>
        val run = new Run(cases, backend)
        try {
          run.stream(queues())
          assertSame(run.told, cases.map(one => one.name -> one.stream))
          assertSame(run.left, cases.map(one => one.name -> one.left))
        } finally run.close()
      }
    }

    test(s"batches, $name") {
      groups.foreach { cases =>
        val run = new Run(cases, backend)
        try {
          run.batch()
          assertSame(run.told, cases.map(one => one.name -> one.batch))
        } finally run.close()
      }
    }
  }

  test("a time-sorted stream gives the same however it is cut, but for processing-time timers") {
    val cases = GoldenCases.all.filter(one => one.timeSorted && !one.toString.contains("clock "))
    val last = cases.map(_.clock.last.watermark).max
    for (seed <- 1 to 5) {
      val random = new Random(seed)
      val cut =
        cases.map(one => one.copy(rows = one.rows.filter(_.micros.get <= last * 1000).map(_.copy(step = 1))))
      val marks = Seq.fill(random.nextInt(8))(random.nextInt(last.toInt).toLong - 2).sorted :+ last
      val results = Seq(Seq(last), marks).map { watermarks =>
        // Each row comes just before the watermark passes it, or earlier.
        val rows = cut.map { one =>
          one.copy(
            clock = watermarks.map(GoldenClock(_, 0)),
            rows = one.rows.map { row =>
              val latest = watermarks.indexWhere(_ * 1000 >= row.micros.get) + 1
              row.copy(step = 1 + random.nextInt(latest))
            }
          )
        }
        val run = new Run(rows, backends.head._2)
        try {
          run.stream(TimerQueues.Heap)
          run.told
        } finally run.close()
      }
      assertSame(results(1), results.head)
    }
  }

  private def assertSame[A](found: Seq[(String, A)], expected: Seq[(String, A)]): Unit = {
    val (all, wanted) = (found.toMap, expected.toMap)
    val wrong = wanted.keys.toSeq.sorted.filter(key => all.get(key) != wanted.get(key))
    assert(
      wrong.isEmpty,
      wrong.map(key => s"\n$key\n  found    ${all.get(key)}\n  expected ${wanted(key)}").mkString
    )
    assert(all.keySet == wanted.keySet)
  }
}

private object GoldenOrderSuite {
  type Row = (String, String)

  /** A row as it waits: its key, its time in microseconds, its place in the program, what it does. */
  final case class Item(key: String, micros: Option[Long], place: Int, ops: String)

  object Items extends TypeSerializer[Item] {
    private val text = Serializers.ofString
    override def serialize(item: Item, out: OutputView): Unit =
      text.serialize(s"${item.key}|${item.micros.fold("")(_.toString)}|${item.place}|${item.ops}", out)
    override def deserialize(in: InputView): Item = {
      val Array(key, micros, place, ops) = text.deserialize(in).split("\\|", 4)
      Item(key, Option.when(micros.nonEmpty)(micros.toLong), place.toInt, ops)
    }
    override def copy(item: Item): Item = item
    override def snapshot: SerializerSnapshot = SerializerSnapshot.of("golden item")
  }

  val Ties: Comparator[Item] = Ordering.by((item: Item) => (item.micros.get, item.place))

  /** Runs the cases of one order and clock, a key each. */
  final class Run(
      cases: Seq[GoldenCase],
      makeBackend: EventClock => KeyedStateBackend[String]
  ) extends AutoCloseable {
    private val timeSorted = cases.head.timeSorted
    private val clock = new EventClock
    private val backend = makeBackend(clock)
    private val function = new GoldenFunction(cases)
    private val told_ = mutable.LinkedHashMap.empty[String, mutable.ArrayBuffer[String]]
    private var timers: PolledTimerService[String] = _

    def told: Seq[(String, Seq[String])] =
      cases.map(one => one.name -> told_.get(one.name).fold(Seq.empty[String])(_.toSeq))

    def left: Seq[(String, GoldenState)] = cases.map { one =>
      backend.setCurrentKey(one.name)
      val (value, list) = function.state
      val event =
        timers
          .timersOfCurrentKey(TimeDomain.EVENT_TIME)
          .filter(_.namespace.isVoid)
          .map(_.timestamp -> "event")
      val processing = timers.timersOfCurrentKey(TimeDomain.PROCESSING_TIME).map(_.timestamp -> "clock")
      val due = (event ++ processing).sortBy { case (time, kind) => (time, kind) }
      one.name -> GoldenState(value, list, due.map { case (time, kind) => s"$kind $time" })
    }

    def stream(queues: TimerQueues): Unit = {
      val stored =
        new InternalTimerServiceImpl[String](backend, queues)
      timers = stored
      val target = open()
      start()
      val rows = new Given
      val order: StreamOrder[String, Item] =
        if (timeSorted)
          new TimeSortedOrder(
            rows,
            (_: Item).key,
            new WaitingRows(backend, stored, Items, Ties),
            stored,
            clock,
            target
          )
        else new ArrivalOrder(rows, stored, clock, target)
      var late = Long.MinValue
      cases.head.clock.zipWithIndex.foreach { case (end, i) =>
        rows.give(items.filter { case (step, item) => step == i + 1 && !isLate(item, late) }.map(_._2))
        clock.processingTime = end.processingTime
        backend.noteWatermark(end.watermark)
        order.advance(end.watermark, end.processingTime)
        run(order)
        late = math.max(late, end.watermark)
      }
    }

    def batch(): Unit = {
      val own = new BatchExecutionInternalTimerService[String](backend)
      timers = own
      val target = open()
      start()
      val rows = new Given
      val byKey = items.map(_._2).groupBy(_.key).values.toSeq
      rows.give(
        byKey.flatMap(all => if (timeSorted) all.sorted(Ordering.comparatorToOrdering(Ties)) else all)
      )
      val ties = Option.when(timeSorted)(Ties)
      run(new BatchOrder(rows, (_: Item).key, Serializers.ofString, own, clock, target, ties))
    }

    override def close(): Unit = backend.close()

    private def isLate(item: Item, watermark: Long): Boolean =
      watermark != Long.MinValue && item.micros.exists(_ <= watermark * 1000)

    private def items: Seq[(Int, Item)] =
      for (one <- cases; row <- one.rows) yield (row.step, Item(one.name, row.micros, row.place, row.ops))

    private def open(): KeyedTarget[String, Item] = {
      val states = new FunctionStates[String]("keyed", backend, identity)
      function.open(states)
      new FunctionTarget(function, states, backend, timers, clock, new Told, View)
    }

    private def start(): Unit = cases.foreach { one =>
      backend.setCurrentKey(one.name)
      function.put(one.initial)
      one.initial.timers.foreach { timer =>
        val time = timer.dropWhile(_ != ' ').trim.toLong
        if (timer.startsWith("event")) timers.register(TimeDomain.EVENT_TIME, Namespace.Void, time)
        else timers.register(TimeDomain.PROCESSING_TIME, Namespace.Void, time)
      }
    }

    private def run(order: KeyedSchedule): Unit = while (order.step()) {}

    private final class Given extends Rows[Item] {
      private var next: Iterator[Item] = Iterator.empty
      private var current: Item = _
      def give(items: Seq[Item]): Unit = next = items.iterator
      override def advance(): Boolean = {
        val has = next.hasNext
        current = if (has) next.next() else null
        has
      }
      override def row: Item = current

      /** As Spark has it: rounded down, and up if rows are sorted by time. */
      override def time: Long = current.micros.fold(Output.NoTimestamp)(micros =>
        if (timeSorted) -Math.floorDiv(-micros, 1000L) else Math.floorDiv(micros, 1000L)
      )
    }

    private final class Told extends Output[Row] {
      override def collect(value: Row, timestamp: Long): Unit =
        told_.getOrElseUpdate(value._1, mutable.ArrayBuffer.empty) += value._2
      override def collect[X](tag: OutputTag[X], value: X, timestamp: Long): Unit = ()
      override def emitWatermark(timestamp: Long): Unit = ()
    }
  }

  private object View extends FunctionTarget.View[String, Item, String, Row] {
    override def keyOf(row: Item): String = row.key
    override def key(key: String): String = key
    override def input(row: Item): Row = (row.key, row.ops)
  }
}
