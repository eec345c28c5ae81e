package io.pillarbox.state.rocksdb

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.api.{ListState, OutputView, ScalaSerializers, StateDescriptor, StateTtl}
import io.pillarbox.state.ScalaHandles._
import io.pillarbox.state._
import io.pillarbox.state.heap.HeapKeyedStateBackend
import io.pillarbox.state.rocksdb.list.{ListAccess, ListChunk, ListChunkBuilder}
import io.pillarbox.state.rocksdb.store.RocksDBConfig
import io.pillarbox.tags.Nightly
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.tags.Slow

/**
 * Lists that are added to while neither the cache nor the reader of the log knows what is in them, among
 * everything else that can happen to them, with a cache that has room for few.
 */
@Slow
class UnseenListSuite extends AnyFunSuite with RocksDBFixture {
  override protected def cacheBytes: Int = 16 << 10

  override protected def listChunkBytes: Int = 512

  private final val Keys = 400

  private val ttls = Seq(
    "without TTL" -> None,
    "with TTL" -> Some(TestState.ttl(1000L)),
    "renewed by reads" -> Some(TestState.ttl(1000L, StateTtl.Update.ON_READ_AND_WRITE))
  )

  for ((name, ttl) <- ttls; seed <- 1 to 5) {
    val tags = if (seed == 1) Nil else Seq(Nightly)
    test(s"what is added unseen is read, told, checkpointed and restored, $name ($seed)", tags: _*) {
      val run = new Run(new Random(seed.toLong), TestState.list("list", ScalaSerializers.long, ttl))
      // By day one seed and the steps that fill a cache some times.
      try run.all(if (seed == 1) 5000 else 20000)
      finally run.close()
    }
  }

  private final class Run(random: Random, descriptor: StateDescriptor[ListState[Long]]) {
    private val clock = new ManualClock(0L)
    private val model = mutable.Map.empty[Long, Vector[Long]].withDefaultValue(Vector.empty)
    private val logs = mutable.ArrayBuffer.empty[Array[Byte]]
    private var backend = openAt(newDirectory(), ScalaSerializers.long, clock)
    private var state = backend.getOrCreate(descriptor)
    private var element = 0L

    def all(steps: Int): Unit = {
      for (_ <- 0 until steps) step()
      (0L until Keys.toLong).foreach(check(backend, state, _))
      logs += bytesOf(backend.commit())
      checkCount(backend.entryCount)
      checkReplay(openAt(newDirectory(), ScalaSerializers.long, clock))
      checkReplay(new HeapKeyedStateBackend(ScalaSerializers.long, clock))
    }

    def close(): Unit = backend.close()

    private def step(): Unit = {
      val key = random.nextInt(Keys).toLong
      backend.setCurrentKey(key)
      random.nextInt(1000) match {
        case n if n < 880 => add(key, 1 + random.nextInt(3))
        case n if n < 940 => check(backend, state, key)
        case n if n < 970 =>
          state.clear()
          model(key) = Vector.empty
        case n if n < 990 =>
          state.update(Seq(element))
          model(key) = Vector(element)
        case n if n < 998 => logs += bytesOf(backend.commit())
        case _ => reopen()
      }
    }

    private def add(key: Long, count: Int): Unit = {
      val more = Seq.fill(count) { element += 1; element }
      state.addAll(more)
      model(key) ++= more
    }

    /** On a copy of the files, with what waits for a commit told before. */
    private def reopen(): Unit = {
      logs += bytesOf(backend.commit())
      val target = newDirectory().resolve("checkpoint")
      backend.checkpoint(target)
      if (random.nextBoolean()) {
        val count = backend.entryCount
        backend.close()
        backend = openAt(target, ScalaSerializers.long, clock)
        backend.assumeEntries(count)
        state = backend.getOrCreate(descriptor)
      }
    }

    private def check(of: KeyedStateBackend[Long], list: ListState[Long], key: Long): Unit = {
      of.setCurrentKey(key)
      assert(list.get().toVector == model(key))
    }

    private def checkCount(entries: Long): Unit = assert(entries == model.values.map(_.size).sum)

    private def checkReplay(other: KeyedStateBackend[Long]): Unit =
      try {
        restored(other, logs.toSeq: _*)
        val again = other.getOrCreate(descriptor)
        checkCount(other.numEntries("list"))
        (0L until Keys.toLong).foreach(check(other, again, _))
      } finally other.close()
  }

  test("a list that is only ever added to lies in chunks of a bounded size") {
    val backend = openAt(newDirectory(), ScalaSerializers.long)
    try {
      val state = backend.getOrCreate(TestState.list("list", ScalaSerializers.long))
      val others = backend.getOrCreate(TestState.value("others", ScalaSerializers.long))
      for (round <- 0L until 1500L; key <- 0L until 300L) {
        backend.setCurrentKey(key)
        if (key < 10) state.add(round) else others.update(round)
      }
      backend.entries.dirty.write()
      val family =
        backend.store.columnFamilies.find(family => new String(family.getName).contains("list")).get
      val page = backend.store.scan(family, Array.emptyByteArray, null, 1 << 20)
      val sizes = (0 until page.size).map(page.value(_).length)
      assert(page.isLast && sizes.size > 10 * 5 && sizes.max < 12000)
      for (key <- 0L until 10L) {
        backend.setCurrentKey(key)
        assert(state.get().toSeq == (0L until 1500L))
      }
    } finally backend.close()
  }

  test("what a failed write added, and another try again, is there once") {
    val builder = new ListChunkBuilder
    val out = new OutputView
    builder.begin(isSplit = false, ListAccess.Never)
    builder.add(5L, Array[Byte](5), 0, 1)
    out.writeBytes(builder.finish().toByteArray)
    for (number <- Seq(7, 8, 7, 8, 9)) builder.writeUnseen(out, number.toLong, Array(number.toByte), 0, 1)
    for (
      (bytes, expected) <- Seq(out.toByteArray -> Seq(5, 7, 8, 9), out.toByteArray.drop(12) -> Seq(7, 8, 9))
    ) {
      val chunk = new ListChunk().open(bytes)
      assert(chunk.first == expected.head)
      assert(
        expected.forall(number =>
          chunk.next() && chunk.number == number && bytes(chunk.valueOffset) == number
        )
      )
      assert(!chunk.next())
    }
  }

  test("compaction joins what was added unseen, and drops it when it is older than its TTL and margin") {
    val config =
      RocksDBConfig(newDirectory(), memoryLimit = 32L << 20, cacheBytes = cacheBytes, compactionMargin = 0L)
    val backend =
      new RocksDBKeyedStateBackend(ScalaSerializers.long, new ManualClock, config)
    try {
      val states = Seq("young list" -> 3600L * 1000, "old list" -> 1000L).map { case (name, ms) =>
        backend.getOrCreate(TestState.list(name, ScalaSerializers.long, Some(TestState.ttl(ms))))
      }
      for (round <- 0L until 3L; key <- 0L until 1000L; state <- states) {
        backend.setCurrentKey(key)
        state.add(round)
      }
      def compact(): Unit = {
        backend.entries.dirty.write()
        backend.store.flush()
        backend.store.columnFamilies.filter(_.getName.length > 7).foreach(backend.store.compact)
      }
      compact()
      val deadline = System.nanoTime() + 60L * 1000 * 1000 * 1000
      while (backend.numEntries("old list") > 0 && System.nanoTime() < deadline) compact()
      assert(backend.numEntries("old list") == 0)
      assert(backend.numEntries("young list") == 3000)
    } finally backend.close()
  }
}
