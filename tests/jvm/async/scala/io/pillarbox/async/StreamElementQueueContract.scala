package io.pillarbox.async

import java.util

import scala.collection.mutable

import io.pillarbox.async.queue.{AsyncOutput, StreamElementQueue, StreamElementQueueEntry}
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** What every queue of elements in flight has to do, whatever its order. */
abstract class StreamElementQueueContract extends AnyFunSuite with ScalaCheckPropertyChecks {
  type Entry = StreamElementQueueEntry[String, String]

  def newQueue(capacity: Int): StreamElementQueue[String, String]

  /**
   * The entries that may leave next, of all that are in flight in the order they were put. `completed` has
   * the numbers of the records that are done, in the order they were done.
   */
  def mayLeave(inFlight: Seq[Int], completed: Seq[Int]): Option[Int]

  protected val emitted: mutable.Buffer[String] = mutable.Buffer.empty

  protected val output: AsyncOutput[String, String] = new AsyncOutput[String, String] {
    override def emit(input: String, timestampMs: Long, results: util.Collection[String]): Unit =
      emitted += s"$input@$timestampMs=>${String.join(",", results)}"
  }

  protected def record(name: String, timestampMs: Long = 0L): Entry =
    new StreamElementQueueEntry[String, String](name, timestampMs)

  protected def put(queue: StreamElementQueue[String, String], name: String): Entry = {
    val entry = record(name)
    assert(queue.tryPut(entry))
    entry
  }

  protected def complete(queue: StreamElementQueue[String, String], entry: Entry): Unit = {
    entry.setResult(s"${entry.input}'")
    queue.complete(entry)
  }

  protected def emitAll(queue: StreamElementQueue[String, String]): Seq[String] = {
    emitted.clear()
    while (queue.hasCompletedElements) queue.emitCompletedElement(output)
    emitted.toSeq
  }

  protected def inputs(queue: StreamElementQueue[String, String]): Seq[String] = {
    val all = Seq.newBuilder[String]
    queue.foreach(entry => all += entry.input)
    all.result()
  }

  test("a full queue refuses and is unchanged; an emitted element makes room, a done one does not") {
    val queue = newQueue(2)
    val first = put(queue, "a")
    put(queue, "b")
    assert(!queue.tryPut(record("c")) && queue.size == 2 && inputs(queue) == Seq("a", "b"))
    complete(queue, first)
    assert(!queue.tryPut(record("c")))
    assert(emitAll(queue) == Seq("a@0=>a'"))
    assert(queue.tryPut(record("c")) && inputs(queue) == Seq("b", "c"))
  }

  test("rows of one element leave together with its timestamp, an empty answer just frees the place") {
    val queue = newQueue(3)
    val many = record("many", 5)
    val none = record("none", 6)
    assert(queue.tryPut(many) && queue.tryPut(none))
    many.setResults(util.List.of("x", "y"))
    queue.complete(many)
    none.setResults(util.List.of())
    queue.complete(none)
    assert(emitAll(queue) == Seq("many@5=>x,y", "none@6=>") && queue.isEmpty)
  }

  test("emitting from an empty queue, or with nothing done, does nothing") {
    val queue = newQueue(2)
    queue.emitCompletedElement(output)
    put(queue, "a")
    queue.emitCompletedElement(output)
    assert(queue.size == 1)
  }

  test("an output that throws has its element removed already, so it is not emitted twice") {
    val queue = newQueue(2)
    complete(queue, put(queue, "a"))
    val broken = new AsyncOutput[String, String] {
      override def emit(input: String, timestampMs: Long, results: util.Collection[String]): Unit =
        throw new ArithmeticException
    }
    intercept[ArithmeticException](queue.emitCompletedElement(broken))
    assert(queue.isEmpty)
  }

  test("a capacity that is not positive is refused with the value") {
    assert(intercept[IllegalArgumentException](newQueue(0)).getMessage.contains("not 0"))
  }

  test("a capacity that is not used costs nothing") {
    val queue = newQueue(Int.MaxValue)
    complete(queue, put(queue, "a"))
    assert(emitAll(queue).size == 1)
  }

  test("puts, completions and emissions in any order agree with the model, snapshots in the order put") {
    forAll(Gen.choose(1, 40), Gen.listOfN(200, Gen.zip(Gen.choose(0, 9), Gen.choose(0, 1000)))) {
      (capacity, ops) =>
        val queue = newQueue(capacity)
        val entries = mutable.Map.empty[Int, Entry]
        var inFlight = Vector.empty[Int]
        var completed = Vector.empty[Int]
        for (((kind, pick), id) <- ops.zipWithIndex) {
          kind match {
            case 0 | 1 | 2 | 3 | 4 =>
              val entry = record(id.toString)
              assert(queue.tryPut(entry) == inFlight.size < capacity)
              if (inFlight.size < capacity) {
                inFlight :+= id
                entries(id) = entry
              }
            case 5 | 6 | 7 =>
              val open = inFlight.filterNot(completed.contains)
              if (open.nonEmpty) {
                val chosen = open(pick % open.size)
                complete(queue, entries(chosen))
                completed :+= chosen
              }
            case _ =>
              val expected = mayLeave(inFlight, completed)
              assert(queue.hasCompletedElements == expected.isDefined)
              emitted.clear()
              queue.emitCompletedElement(output)
              assert(emitted.toSeq == expected.toSeq.map(i => s"$i@0=>$i'"))
              inFlight = inFlight.filterNot(expected.contains)
          }
          assert(queue.size == inFlight.size)
          assert(inputs(queue) == inFlight.map(_.toString))
        }
    }
  }
}
