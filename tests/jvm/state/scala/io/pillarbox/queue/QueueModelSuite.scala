package io.pillarbox.queue

import scala.collection.mutable

import io.pillarbox.queue.TestElement.{LocalKeys, Tie}
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** Random operations on every queue beside a sorted set that does the same. */
class QueueModelSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private sealed trait Op
  private case class Add(element: TestElement) extends Op
  private case class Remove(element: TestElement) extends Op
  private case class AddAll(elements: Seq[TestElement]) extends Op
  private case object Poll extends Op
  private case object Look extends Op
  private case object Restart extends Op

  private val element = for {
    key <- Gen.oneOf(LocalKeys.take(12))
    time <- Gen.frequency(8 -> Gen.chooseNum(-20L, 20L), 1 -> Gen.oneOf(Long.MinValue, Long.MaxValue))
  } yield TestElement(key, time)

  private val op: Gen[Op] = Gen.frequency(
    10 -> element.map(Add),
    6 -> element.map(Remove),
    8 -> Gen.const(Poll),
    1 -> Gen.listOf(element).map(AddAll),
    2 -> Gen.const(Look),
    1 -> Gen.const(Restart)
  )

  private val script = Gen.choose(0, 250).flatMap(Gen.listOfN(_, op))

  private val order = Ordering.by((e: TestElement) => (e.priority, TestElement.GroupOf.applyAsInt(e), e.key))

  /** A queue, and how to come back after a restart; the same queue where there is nothing to restart. */
  private type Restartable = () => KeyGroupedInternalPriorityQueue[TestElement]

  private val groupThenKey: java.util.Comparator[TestElement] =
    java.util.Comparator
      .comparingInt((e: TestElement) => TestElement.GroupOf.applyAsInt(e))
      .thenComparing(Tie)

  private def run(ops: List[Op], open: Restartable): Unit = {
    var queue = open()
    val model = mutable.TreeSet.empty[TestElement](order)
    ops.foreach {
      case Add(element) => checkHead(queue, model)(queue.add(element), model += element)
      case Remove(element) => checkHead(queue, model)(queue.remove(element), model -= element)
      case AddAll(elements) =>
        queue.addAll(elements)
        model ++= elements
      case Poll =>
        assert(Option(queue.poll()) == model.headOption)
        model.headOption.foreach(model.remove)
      case Look => look(queue, model)
      case Restart =>
        queue.flush()
        queue = open()
    }
    look(queue, model)
    assert(Iterator.continually(queue.poll()).takeWhile(_ != null).toSeq == model.toSeq)
  }

  /** A false answer promises the old head; and a changed head must have been told. */
  private def checkHead(queue: InternalPriorityQueue[TestElement], model: mutable.TreeSet[TestElement])(
      change: => Boolean,
      changeModel: => Any
  ): Unit = {
    val before = model.headOption
    val told = change
    changeModel
    assert(told || model.headOption == before)
    assert(Option(queue.peek()) == model.headOption)
  }

  private def look(
      queue: KeyGroupedInternalPriorityQueue[TestElement],
      model: mutable.TreeSet[TestElement]
  ): Unit = {
    assert(queue.size == model.size && queue.isEmpty == model.isEmpty)
    val elements = queue.iterator
    try assert(elements.toSeq.sorted(order) == model.toSeq)
    finally elements.close()
    for (group <- TestElement.Groups.start to TestElement.Groups.end)
      assert(
        queue.subsetForKeyGroup(group).sorted(order) == model.toSeq.filter(
          TestElement.GroupOf.applyAsInt(_) == group
        )
      )
  }

  private implicit val config: PropertyCheckConfiguration = PropertyCheckConfiguration(minSuccessful = 100)

  test("the heap set does what a sorted set does") {
    forAll(script) { ops =>
      val queue =
        new HeapPriorityQueueSet[TestElement](TestElement.Groups, TestElement.GroupOf, groupThenKey, 1)
      run(ops, () => queue)
    }
  }

  test("the key-group-partitioned heaps do what a sorted set does") {
    forAll(script) { ops =>
      val queue = new KeyGroupPartitionedPriorityQueue[TestElement](
        TestElement.Groups,
        TestElement.GroupOf,
        _ => new HeapElementSet[TestElement](groupThenKey)
      )
      run(ops, () => queue)
    }
  }

  test("the caching queue does what a sorted set does, over restarts, with caches of any size") {
    forAll(script, Gen.oneOf(1, 2, 3, 7, 100), Gen.oneOf(1, 17, 40)) { (ops, cache, range) =>
      val store = new MemoryOrderedByteStore
      run(ops, () => RocksDBQueues.over(store, cache, range))
      assert(store.openCursors == 0)
    }
  }

  test("the RocksDB queue does what a sorted set does, over restarts of the database") {
    forAll(script, Gen.oneOf(1, 3, 16), Gen.oneOf(17, 1000), minSuccessful(8)) { (ops, cache, range) =>
      val database = new RocksDBFixture
      try {
        var first = true
        run(
          ops,
          () => {
            if (!first) database.restart()
            first = false
            RocksDBQueues.over(database.newStore(), cache, range)
          }
        )
      } finally database.close()
    }
  }
}
