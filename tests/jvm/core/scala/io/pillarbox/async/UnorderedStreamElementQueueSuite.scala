package io.pillarbox.async

import io.pillarbox.async.queue.{StreamElementQueue, StreamElementQueueEntry, UnorderedStreamElementQueue}

class UnorderedStreamElementQueueSuite extends StreamElementQueueContract {
  override def newQueue(capacity: Int): StreamElementQueue[String, String] = new UnorderedStreamElementQueue(
    capacity
  )

  override def mayLeave(inFlight: Seq[(Int, Boolean)], completed: Seq[Int]): Option[Int] = {
    val segment = inFlight.takeWhile(!_._2).map(_._1)
    completed.find(segment.contains).orElse {
      if (segment.isEmpty) inFlight.headOption.map(_._1) else None
    }
  }

  test("without watermarks elements leave in the order they are done") {
    val queue = newQueue(10)
    val entries = Seq("a", "b", "c").map(put(queue, _))
    complete(queue, entries(2))
    complete(queue, entries(0))
    assert(emitAll(queue) == Seq("c@0=>c'", "a@0=>a'"))
    assert(inputs(queue) == Seq("b"))
  }

  test("nothing passes a watermark, and the watermark passes nothing") {
    val queue = newQueue(10)
    val before = put(queue, "before")
    queue.tryPut(StreamElementQueueEntry.watermark(1))
    val after = put(queue, "after")
    complete(queue, after)
    assert(!queue.hasCompletedElements)
    complete(queue, before)
    assert(emitAll(queue) == Seq("before@0=>before'", "~1", "after@0=>after'"))
  }

  test("successive watermarks leave in order, and records after them follow") {
    val queue = newQueue(10)
    queue.tryPut(StreamElementQueueEntry.watermark(1))
    queue.tryPut(StreamElementQueueEntry.watermark(2))
    val a = put(queue, "a")
    assert(emitAll(queue) == Seq("~1", "~2"))
    complete(queue, a)
    assert(emitAll(queue) == Seq("a@0=>a'"))
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
