package io.pillarbox.queue

import scala.util.Random

import io.pillarbox.queue.TestElement.LocalKeys
import org.scalatest.funsuite.AnyFunSuite

/** What every queue promises; one suite an implementation. */
abstract class InternalPriorityQueueContract extends AnyFunSuite {

  protected def newQueue(): InternalPriorityQueue[TestElement]

  protected def key(i: Int): Long = LocalKeys(i % LocalKeys.size)

  private def drain(queue: InternalPriorityQueue[TestElement]): Seq[TestElement] =
    Iterator.continually(queue.poll()).takeWhile(_ != null).toSeq

  private def all(queue: InternalPriorityQueue[TestElement]): Seq[TestElement] = {
    val elements = queue.iterator
    try elements.toList
    finally elements.close()
  }

  protected def randomElements(count: Int, seed: Int): Seq[TestElement] = {
    val random = new Random(seed)
    Seq
      .fill(count)(TestElement(key(random.nextInt(1000)), random.nextInt(count) - count / 2L))
      .distinct
  }

  test("an empty queue has no head, no size and no elements") {
    val queue = newQueue()
    assert(queue.isEmpty && queue.size == 0)
    assert(queue.peek() == null && queue.poll() == null)
    assert(all(queue).isEmpty)
    queue.addAll(Nil)
    queue.addAll(null)
    assert(queue.isEmpty)
  }

  test("elements leave in the order of their priorities, negative ones first") {
    val queue = newQueue()
    val extremes = Seq(Long.MinValue, Long.MaxValue, 0L, -1L, 1L).map(TestElement(key(3), _))
    val elements = randomElements(2000, 1) ++ extremes
    elements.distinct.foreach(queue.add)
    assert(queue.size == elements.distinct.size)
    assert(drain(queue).map(_.priority) == elements.distinct.map(_.priority).sorted)
    assert(queue.isEmpty)
  }

  test("add tells that the head changed if the new element is the smallest") {
    val queue = newQueue()
    assert(queue.add(TestElement(key(0), 10)))
    assert(!queue.add(TestElement(key(0), 20)))
    assert(queue.add(TestElement(key(0), 5)))
    assert(queue.peek() == TestElement(key(0), 5))
    assert(queue.size == 3)
  }

  test("remove tells that the head changed if the smallest goes, not if another one goes") {
    val queue = newQueue()
    val elements = (0 until 50).map(i => TestElement(key(i), i.toLong))
    elements.foreach(queue.add)
    assert(!queue.remove(elements(20)))
    assert(!queue.remove(elements(49)))
    assert(queue.remove(elements(0)))
    assert(queue.peek() == elements(1))
    assert(drain(queue) == elements.filterNot(e => Set(0L, 20L, 49L)(e.priority)))
  }

  test("removing what is not there changes nothing") {
    val queue = newQueue()
    assert(!queue.remove(TestElement(key(0), 1)))
    queue.add(TestElement(key(0), 2))
    assert(!queue.remove(TestElement(key(0), 1)))
    assert(!queue.remove(TestElement(key(1), 2)))
    assert(queue.size == 1)
  }

  test("poll returns the object that peek returned") {
    val queue = newQueue()
    randomElements(100, 2).foreach(queue.add)
    while (!queue.isEmpty) {
      val head = queue.peek()
      assert(queue.peek() eq head)
      assert(queue.poll() eq head)
    }
  }

  test("adding in bulk gives the same order as one by one") {
    for (first <- Seq(0, 5, 500)) {
      val queue = newQueue()
      val elements = randomElements(1000, 3)
      elements.take(first).foreach(queue.add)
      queue.addAll(elements.drop(first))
      assert(queue.size == elements.size)
      assert(drain(queue).map(_.priority) == elements.map(_.priority).sorted)
    }
  }

  test("the iterator returns every element once and ends with NoSuchElementException") {
    val queue = newQueue()
    val elements = randomElements(700, 4)
    elements.foreach(queue.add)
    assert(all(queue).sortBy(_.toString) == elements.sortBy(_.toString))
    val iterator = queue.iterator
    iterator.foreach(_ => ())
    assertThrows[NoSuchElementException](iterator.next())
    iterator.close()
    iterator.close()
  }

  test("an iterator may be closed before its end") {
    val queue = newQueue()
    randomElements(700, 5).foreach(queue.add)
    val iterator = queue.iterator
    iterator.next()
    iterator.close()
    assert(queue.poll() != null)
  }

  test("a mix of adds, removes and polls keeps the order") {
    val queue = newQueue()
    val random = new Random(6)
    val elements = randomElements(3000, 6)
    elements.foreach(queue.add)
    val gone = random.shuffle(elements).take(1000)
    gone.foreach(queue.remove)
    val polled = Seq.fill(500)(queue.poll())
    gone.take(500).foreach(queue.add)
    val left = elements.diff(gone).diff(polled) ++ gone.take(500)
    assert(drain(queue).map(_.priority) == left.map(_.priority).sorted)
  }

  test("many operations on a small queue don't make it grow") {
    val queue = newQueue()
    val elements = randomElements(64, 7)
    elements.foreach(queue.add)
    var time = 1000L
    for (_ <- 1 to 20000) {
      val head = queue.poll()
      time += 1
      queue.add(TestElement(head.key, time))
    }
    assert(queue.size == elements.size)
    assert(drain(queue).map(_.priority) == ((time - elements.size + 1) to time))
  }

}

/** What a queue promises that takes equal elements once. */
abstract class PriorityQueueSetContract extends InternalPriorityQueueContract {

  test("a set takes an equal element once and keeps the first") {
    val queue = newQueue()
    assert(queue.add(TestElement(key(0), 1)))
    assert(!queue.add(TestElement(key(0), 1)))
    queue.addAll(Seq(TestElement(key(0), 1), TestElement(key(1), 1), TestElement(key(1), 1)))
    assert(queue.size == 2)
  }

  test("a set removes by an equal element") {
    val queue = newQueue()
    randomElements(300, 8).foreach(queue.add)
    randomElements(300, 8).foreach(queue.remove)
    assert(queue.isEmpty && queue.peek() == null)
  }
}

/** What a queue of several key groups promises beyond that. */
abstract class KeyGroupedPriorityQueueContract extends PriorityQueueSetContract {
  override protected def newQueue(): KeyGroupedInternalPriorityQueue[TestElement]

  test("the subset of a key group has its elements and only those") {
    val queue = newQueue()
    val elements = for (key <- LocalKeys; time <- 0L until 20L) yield TestElement(key, time)
    elements.foreach(queue.add)
    for (group <- TestElement.Groups.start to TestElement.Groups.end) {
      val expected = elements.filter(TestElement.GroupOf.applyAsInt(_) == group)
      assert(queue.subsetForKeyGroup(group).sortBy(_.toString) == expected.sortBy(_.toString))
    }
  }

  test("a subset is a copy, and the next one shows what changed") {
    val queue = newQueue()
    val one = TestElement(LocalKeys.head, 1)
    val group = TestElement.GroupOf.applyAsInt(one)
    queue.add(one)
    val before = queue.subsetForKeyGroup(group)
    queue.add(TestElement(one.key, 2))
    assert(before == Seq(one))
    assert(queue.subsetForKeyGroup(group).size == 2)
    queue.remove(one)
    assert(queue.subsetForKeyGroup(group) == Seq(TestElement(one.key, 2)))
    queue.poll()
    assert(queue.subsetForKeyGroup(group).isEmpty)
  }

  test("an element of another partition's key group is refused, and nothing changes") {
    val queue = newQueue()
    queue.add(TestElement(LocalKeys.head, 1))
    val foreign = TestElement(TestElement.ForeignKey, 0)
    val refused = intercept[IllegalArgumentException](queue.add(foreign))
    assert(refused.getMessage.contains(TestElement.Groups.toString))
    assertThrows[IllegalArgumentException](queue.addAll(Seq(TestElement(LocalKeys.head, 2), foreign)))
    assertThrows[IllegalArgumentException](queue.subsetForKeyGroup(TestElement.Groups.end + 1))
    assert(queue.poll() == TestElement(LocalKeys.head, 1))
    queue.add(TestElement(LocalKeys.head, 3))
    queue.poll()
    assert(queue.size <= 1)
  }
}
