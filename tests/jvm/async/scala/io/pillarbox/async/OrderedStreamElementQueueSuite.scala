package io.pillarbox.async

import io.pillarbox.async.queue.{OrderedStreamElementQueue, StreamElementQueue}

class OrderedStreamElementQueueSuite extends StreamElementQueueContract {
  override def newQueue(capacity: Int): StreamElementQueue[String, String] = new OrderedStreamElementQueue(
    capacity
  )

  override def mayLeave(inFlight: Seq[Int], completed: Seq[Int]): Option[Int] =
    inFlight.headOption.filter(completed.contains)

  test("only the head may leave: what is done behind it waits") {
    val queue = newQueue(10)
    val a = put(queue, "a")
    val b = put(queue, "b")
    complete(queue, b)
    assert(!queue.hasCompletedElements)
    complete(queue, a)
    assert(emitAll(queue) == Seq("a@0=>a'", "b@0=>b'"))
  }
}
