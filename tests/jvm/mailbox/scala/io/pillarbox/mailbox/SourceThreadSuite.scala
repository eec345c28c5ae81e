package io.pillarbox.mailbox

import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{CountDownLatch, LinkedBlockingQueue}

import scala.collection.mutable

import io.pillarbox.mailbox.MailboxTesting._
import org.scalatest.funsuite.AnyFunSuite

class SourceThreadSuite extends AnyFunSuite {
  private final class Fixture[T <: AnyRef](input: Iterator[T], capacity: InputExchange.Capacity[T]) {
    def this(input: Iterator[T], rows: Int) = this(input, InputExchange.Capacity[T](rows))

    val mailbox = new TaskMailbox(Thread.currentThread())
    val executor = new MailboxExecutor(mailbox, 0)
    var told = 0
    var thread: Thread = _
    val source = new SourceThread[T](
      input,
      capacity,
      executor,
      () => told += 1,
      run => {
        thread = new Thread(run, "source under test")
        thread
      }
    )

    def close(): Unit = {
      source.stop()
      assert(source.awaitEnd(LimitSeconds * 1000))
    }

    /** All rows, sleeping on the mailbox whenever there is none. */
    def readAll(): Seq[T] = {
      val rows = mutable.Buffer.empty[T]
      var status: InputStatus = InputStatus.MoreAvailable
      while (status != InputStatus.EndOfData) {
        val row = source.poll()
        if (row ne null) rows += row
        status = source.status
        if ((row eq null) && status == InputStatus.NothingAvailable) executor.yieldMail()
      }
      rows.toSeq
    }
  }

  test("rows arrive once and in order through a small exchange, then the end of data") {
    val rows = (1 to 50000).map(Integer.valueOf)
    val f = new Fixture(rows.iterator, 3)
    f.source.start()
    assert(f.readAll() == rows)
    assert(f.source.poll() eq null)
    assert(f.source.status == InputStatus.EndOfData)
    f.close()
  }

  test("while the input blocks the mailbox thread runs mail, and is told when a row comes") {
    val input = new LinkedBlockingQueue[String]
    val f = new Fixture(Iterator.continually(input.take()).takeWhile(_ != "end"), 10)
    f.source.start()
    assert((f.source.poll() eq null) && f.source.status == InputStatus.NothingAvailable)
    var ran = false
    f.executor.execute(() => ran = true, "mail")
    f.executor.yieldMail()
    assert(ran && f.told == 0)
    input.put("row")
    f.executor.yieldMail()
    assert(f.told == 1 && f.source.poll() == "row")
    input.put("end")
    assert(f.readAll().isEmpty)
    f.close()
  }

  test("an exception of the input comes after the rows before it") {
    val f = new Fixture(Iterator("a", "b") ++ Iterator.fill(1)(throw new java.io.IOException("disk")), 10)
    f.source.start()
    val rows = mutable.Buffer.empty[String]
    val failure = intercept[java.io.IOException] {
      while (true) {
        val row = f.source.poll()
        if (row ne null) rows += row
        else if (f.source.status == InputStatus.NothingAvailable) f.executor.yieldMail()
      }
    }
    assert(rows == Seq("a", "b"))
    assert(failure.getMessage == "disk")
    f.close()
  }

  test("close ends a source thread that waits for its input, for room, or that was never started") {
    val blocked = new CountDownLatch(1)
    val reading = new CountDownLatch(1)
    val waitsForInput = new Fixture[String](
      Iterator.continually {
        reading.countDown()
        blocked.await()
        "row"
      },
      1
    )
    waitsForInput.source.start()
    reading.await()
    waitsForInput.close()
    val waitsForRoom = new Fixture(Iterator.continually("row"), 1)
    waitsForRoom.source.start()
    eventually("a row came")(waitsForRoom.source.status == InputStatus.MoreAvailable)
    waitsForRoom.close()
    waitsForRoom.close()
    new Fixture(Iterator("row"), 1).close()
  }

  test("a mailbox that is closed ends the source thread") {
    val input = new LinkedBlockingQueue[String]
    val f = new Fixture(Iterator.continually(input.take()), 10)
    f.source.start()
    assert(f.source.poll() eq null)
    f.mailbox.close()
    input.put("row")
    assert(f.source.awaitEnd(LimitSeconds * 1000))
  }

  test("rows wait up to a number of bytes, and one that has more passes alone") {
    val read = new AtomicInteger
    val rows = Iterator.continually { read.incrementAndGet(); "0123456789" }
    val f = new Fixture[String](rows, InputExchange.Capacity[String](1000, 25, _.length.toLong))
    f.source.start()
    // Three wait, with 30 bytes, and the fourth in the hand of its thread.
    eventually("it waits for room")(read.get == 4 && f.thread.getState == Thread.State.WAITING)
    assert(f.source.poll() ne null)
    eventually("it waits for room again")(read.get == 7 && f.thread.getState == Thread.State.WAITING)
    f.close()
    val large =
      new Fixture[String](Iterator("a" * 100, "b"), InputExchange.Capacity[String](9, 1, _.length.toLong))
    large.source.start()
    assert(large.readAll().map(_.length) == Seq(100, 1))
    large.close()
  }

  test("a capacity that is not positive is refused") {
    assert(intercept[IllegalArgumentException](new Fixture(Iterator("a"), 0)).getMessage.contains("not 0"))
  }
}
