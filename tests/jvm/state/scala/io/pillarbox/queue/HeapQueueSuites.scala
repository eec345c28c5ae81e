package io.pillarbox.queue

import io.pillarbox.queue.TestElement.LocalKeys

class HeapPriorityQueueSetSuite extends KeyGroupedPriorityQueueContract {
  override protected def newQueue() =
    new HeapPriorityQueueSet[TestElement](TestElement.Groups, TestElement.GroupOf, initialCapacity = 1)

  test("the object that was there first stays when an equal one is added") {
    val queue = newQueue()
    val first = TestElement(LocalKeys.head, 1)
    queue.add(first)
    queue.add(TestElement(LocalKeys.head, 1))
    assert(queue.poll() eq first)
  }

  test("elements whose hashes collide are kept apart") {
    final class Same(val priority: Long) extends Prioritized {
      override def hashCode: Int = 7
      override def equals(other: Any): Boolean = other match {
        case that: Same => that.priority == priority
        case _ => false
      }
    }
    val queue = new HeapPriorityQueueSet[Same](TestElement.Groups, _ => 3)
    (0L until 200L).foreach(i => queue.add(new Same(i)))
    (0L until 200L by 3).foreach(i => queue.remove(new Same(i)))
    (0L until 200L by 6).foreach(i => queue.add(new Same(i)))
    val expected = (0L until 200L).filter(i => i % 3 != 0 || i % 6 == 0)
    assert(Iterator.continually(queue.poll()).takeWhile(_ != null).map(_.priority).toSeq == expected)
  }

  test("an element that changes its hash while inside leaves in its turn, and takes no other with it") {
    final class Shifty(var hash: Int, override val priority: Long) extends Prioritized {
      override def hashCode: Int = hash
    }
    val queue = new HeapPriorityQueueSet[Shifty](TestElement.Groups, _ => 3)
    val elements = (1 to 100).map(i => new Shifty(i, i.toLong))
    elements.foreach(queue.add)
    elements.foreach(_.hash = 50)
    assert(elements.forall(queue.poll() eq _) && queue.isEmpty)
  }

  test("elements that stay while others come and go are seen exactly once by an iterator") {
    val queue = newQueue()
    val staying = LocalKeys.map(TestElement(_, 1000))
    staying.foreach(queue.add)
    (0L until 500L).foreach(i => queue.add(TestElement(LocalKeys.head, i)))
    val iterator = queue.iterator
    val seen = Seq.fill(20)(iterator.next()) ++ {
      (0L until 400L).foreach(_ => queue.poll())
      (2000L until 4000L).foreach(i => queue.add(TestElement(LocalKeys.head, i)))
      iterator.toSeq
    }
    assert(seen.filter(_.priority == 1000).sortBy(_.key) == staying)
  }

  test("clear empties the set, which then works on") {
    val queue = newQueue()
    (0L until 200000L).foreach(i => queue.add(TestElement(LocalKeys.head, i)))
    queue.clear()
    assert(queue.isEmpty && !queue.contains(TestElement(LocalKeys.head, 5)))
    assert(queue.add(TestElement(LocalKeys.head, 5)))
    assert(queue.contains(TestElement(LocalKeys.head, 5)) && queue.size == 1)
  }

  test("a set that was drained after being large works on") {
    val queue = newQueue()
    for (_ <- 1 to 2) {
      (0L until 100000L).foreach(i => queue.add(TestElement(LocalKeys(i.toInt % 50), i)))
      assert((0L until 100000L).forall(i => queue.poll().priority == i))
      assert(queue.isEmpty)
    }
  }
}

class HeapElementSetSuite extends PriorityQueueSetContract {
  override protected def newQueue() = new HeapElementSet[TestElement]()
}

class KeyGroupPartitionedHeapSuite extends KeyGroupedPriorityQueueContract {
  override protected def newQueue() = new KeyGroupPartitionedPriorityQueue[TestElement](
    TestElement.Groups,
    TestElement.GroupOf,
    group =>
      new HeapPriorityQueueSet[TestElement](
        KeyGroupRange(group, group),
        TestElement.GroupOf
      )
  )

  test("equal heads leave in the order of their key groups") {
    val queue = newQueue()
    LocalKeys.foreach(key => queue.add(TestElement(key, 5)))
    val groups = LocalKeys.map(_ => TestElement.GroupOf.applyAsInt(queue.poll()))
    assert(groups == groups.sorted)
  }

  test("it starts in order when its queues hold elements already") {
    def filled(group: Int) = {
      val sub = new HeapElementSet[TestElement]()
      LocalKeys.filter(TestElement.groupOfKey(_) == group).foreach(key => sub.add(TestElement(key, -key)))
      sub
    }
    val queue = new KeyGroupPartitionedPriorityQueue(TestElement.Groups, TestElement.GroupOf, filled)
    assert(LocalKeys.map(_ => queue.poll().key) == LocalKeys.sorted.reverse)
  }

  test("an empty key group stands behind one whose head has the greatest time") {
    val queue = newQueue()
    queue.add(TestElement(LocalKeys.last, Long.MaxValue))
    assert(queue.peek() == TestElement(LocalKeys.last, Long.MaxValue))
    assert(!queue.isEmpty)
  }
}
