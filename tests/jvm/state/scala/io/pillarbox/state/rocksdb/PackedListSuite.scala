package io.pillarbox.state.rocksdb

import io.pillarbox.api.{ScalaSerializers, Serializers}
import io.pillarbox.state.ScalaHandles._
import io.pillarbox.state._
import org.scalatest.funsuite.AnyFunSuite

/**
 * What chunks are for: a long list costs little where little of it changes, and logs find their way into
 * them.
 */
class PackedListSuite extends AnyFunSuite with RocksDBFixture {
  private val numbers = TestState.list("list", ScalaSerializers.long)

  override protected def listChunkBytes: Int = 512

  private def withDatabase[A](test: RocksDBKeyedStateBackend[String] => A): A = {
    val backend = openAt(newDirectory(), Serializers.ofString)
    try test(backend)
    finally backend.close()
  }

  /** How large the entries of the database are that hold the list. */
  private def chunks(backend: RocksDBKeyedStateBackend[_]): Seq[Int] = {
    backend.entries.dirty.write()
    val family = backend.store.columnFamilies.find(_.getName.length > 7).get
    val page = backend.store.scan(family, Array.emptyByteArray, null, 1 << 20)
    (0 until page.size).map(page.value(_).length)
  }

  test("a short list is one entry, a long one many of a bounded size, in order") {
    withDatabase { backend =>
      val state = backend.getOrCreate(numbers)
      backend.setCurrentKey("a")
      state.addAll(0L until 10L)
      assert(chunks(backend).size == 1)
      state.addAll(10L until 10000L)
      val sizes = chunks(backend)
      assert(sizes.size > 100 && sizes.max < 600)
      assert(state.get().toSeq == (0L until 10000L) && backend.entryCount == 10000)
      state.clear()
      assert(chunks(backend).isEmpty && state.get().isEmpty && backend.entryCount == 0)
    }
  }

  test("an element larger than a chunk has one of its own") {
    withDatabase { backend =>
      val state = backend.getOrCreate(TestState.list("list", Serializers.ofBytes))
      backend.setCurrentKey("a")
      val elements = Seq(10, 5000, 100000, 3, 4).map(new Array[Byte](_))
      elements.foreach(state.add)
      assert(state.get().map(_.length).toSeq == elements.map(_.length))
      assert(chunks(backend).size == 3)
    }
  }

  test("a list that is read keeps its place while other lists and keys change the cache under it") {
    withDatabase { backend =>
      val (state, other) =
        (backend.getOrCreate(numbers), backend.getOrCreate(TestState.list("other", ScalaSerializers.long)))
      backend.setCurrentKey("a")
      state.addAll(0L until 1000L)
      val read: Iterator[Long] = state.get()
      val seen = Iterator.continually(read).takeWhile(_.hasNext).map { elements =>
        val next = elements.next()
        other.addAll(Seq.fill(200)(next))
        next
      }
      assert(seen.toSeq == (0L until 1000L))
      assert(other.get().size == 200000)
    }
  }

  test("logs that remove elements anywhere in a long list, or all of it, are replayed") {
    val ttl = Some(TestState.ttl(1000L))
    val clock = new ManualClock(0L)
    val first = openAt(newDirectory(), Serializers.ofString, clock)
    try {
      val state = first.getOrCreate(numbers.living(ttl))
      first.setCurrentKey("a")
      for (n <- 0L until 1000L) {
        // So that every third expires before the others.
        clock.processingTime = if (n % 3 == 0) 0L else 500L
        state.add(n)
      }
      val begin = bytesOf(first.commit())
      clock.processingTime = 1200L
      val left = (0L until 1000L).filter(_ % 3 != 0)
      assert(state.get().toSeq == left)
      val expiry = first.commit()
      assert(expiry.entries == 334 && expiry.summary.removals == 334)
      state.clear()
      state.add(7L)
      val end = bytesOf(first.commit())
      for (
        (logs, expected) <- Seq(
          Seq(begin, bytesOf(expiry)) -> left,
          Seq(begin, bytesOf(expiry), end) -> Seq(7L)
        )
      ) {
        val second = openAt(newDirectory(), Serializers.ofString, clock)
        try {
          restored(second, logs: _*)
          val again = second.getOrCreate(numbers.living(ttl))
          second.setCurrentKey("a")
          assert(again.get().toSeq == expected && second.numEntries("list") == expected.size)
          assert(second.commit().isEmpty)
        } finally second.close()
      }
    } finally first.close()
  }

  test("a checkpoint of the files has long lists too") {
    val target = newDirectory().resolve("checkpoint")
    withDatabase { backend =>
      val state = backend.getOrCreate(numbers)
      for (key <- Seq("a", "b")) {
        backend.setCurrentKey(key)
        state.addAll(0L until 500L)
      }
      backend.commit()
      backend.checkpoint(target)
    }
    val second = openAt(target, Serializers.ofString)
    try {
      val state = second.getOrCreate(numbers)
      assert(second.numEntries("list") == 1000)
      second.setCurrentKey("b")
      state.add(500L)
      assert(state.get().toSeq == (0L to 500L) && second.commit().entries == 1)
    } finally second.close()
  }
}
