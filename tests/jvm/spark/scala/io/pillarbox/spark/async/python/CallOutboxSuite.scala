package io.pillarbox.spark.async.python

import java.util.{ArrayList => JArrayList}

import org.scalatest.funsuite.AnyFunSuite

class CallOutboxSuite extends AnyFunSuite {
  private def call(id: Long): Outgoing = Outgoing.Call(PythonCall(id, 1, null))

  test("the writer takes all that has come together, in order") {
    val outbox = new CallOutbox
    (1L to 3L).foreach(id => outbox.put(call(id)))
    assert(outbox.take(new JArrayList).toArray.toSeq == (1L to 3L).map(call))
  }

  test("a message wakes a writer that waits") {
    val outbox = new CallOutbox
    @volatile var taken: JArrayList[Outgoing] = null
    val writer = new Thread(() => taken = outbox.take(new JArrayList))
    writer.start()
    while (writer.getState != Thread.State.WAITING) Thread.onSpinWait()
    outbox.put(call(7))
    writer.join(10000)
    assert(taken.toArray.toSeq == Seq(call(7)))
  }

  test("closing wakes the writer, drops what waits and takes nothing more") {
    val outbox = new CallOutbox
    outbox.put(call(1))
    outbox.close()
    outbox.put(call(2))
    assert(outbox.take(new JArrayList) == null)
  }
}
