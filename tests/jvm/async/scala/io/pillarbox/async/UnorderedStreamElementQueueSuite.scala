package io.pillarbox.async

import io.pillarbox.async.queue.{StreamElementQueue, UnorderedStreamElementQueue}

class UnorderedStreamElementQueueSuite extends StreamElementQueueContract {
  override def newQueue(capacity: Int): StreamElementQueue[String, String] = new UnorderedStreamElementQueue(
    capacity
  )

  override def mayLeave(inFlight: Seq[Int], completed: Seq[Int]): Option[Int] =
    completed.find(inFlight.contains)

  test("elements leave in the order they are done") {
    val queue = newQueue(10)
    val entries = Seq("a", "b", "c").map(put(queue, _))
    complete(queue, entries(2))
    complete(queue, entries(0))
    assert(emitAll(queue) == Seq("c@0=>c'", "a@0=>a'"))
    assert(inputs(queue) == Seq("b"))
  }

  test("a snapshot is in the order put, done or not (Flink: done ones first, the others in hash order)") {
    val queue = newQueue(10)
    val entries = Seq("a", "b", "c", "d").map(put(queue, _))
    complete(queue, entries(2))
    complete(queue, entries(1))
    assert(inputs(queue) == Seq("a", "b", "c", "d"))
    queue.emitCompletedElement(output)
    assert(inputs(queue) == Seq("a", "b", "d"))
  }
}
