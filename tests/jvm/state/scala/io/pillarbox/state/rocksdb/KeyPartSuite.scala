package io.pillarbox.state.rocksdb

import java.nio.file.Path
import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.jdk.CollectionConverters._

import io.pillarbox.api.Serializers
import io.pillarbox.state._
import org.scalatest.funsuite.AnyFunSuite

/** Databases that are divided between several, and joined. */
class KeyPartSuite extends AnyFunSuite with RocksDBFixture {
  private val keys = (0 until 300).map(i => s"key $i" + "x" * (i % 7 * 60))
  private val large = "v" * 5000

  private def partOf(key: String): Int = Math.floorMod(key.hashCode, 3)

  private type Backend = RocksDBKeyedStateBackend[String]

  /** Writes a value, three elements and two entries of a map for each key. */
  private def fill(backend: Backend, keys: Seq[String], version: Int): Unit = keys.foreach { key =>
    backend.setCurrentKey(key)
    backend.getOrCreate(value).update(s"$version of $key" + (if (key.length > 300) large else ""))
    (0 until 3).foreach(i => backend.getOrCreate(list).add(s"$i$version"))
    backend.getOrCreate(map).put("a", version.toLong)
    backend.getOrCreate(map).put("b", key.length.toLong)
  }

  private def read(backend: Backend, key: String): Any = {
    backend.setCurrentKey(key)
    (
      backend.getOrCreate(value).value(),
      backend.getOrCreate(list).get().asScala.toList,
      backend.getOrCreate(map).asScala.map(entry => entry.getKey -> entry.getValue).toList
    )
  }

  private def withDatabase(body: Backend => Unit): Unit = {
    val backend = openAt(newDirectory(), Serializers.ofString)
    try {
      fill(backend, keys, 1)
      backend.commit()
      body(backend)
    } finally backend.close()
  }

  private def copyOf(backend: Backend): Path = {
    val folder = newDirectory().resolve("copy")
    backend.checkpoint(folder)
    folder
  }

  /** Goes on with one of the three parts. */
  private def withPart(whole: Backend, number: Int, isMine: String => Boolean = null)(
      body: Backend => Unit
  ): Unit = {
    val test = if (isMine == null) (key: String) => partOf(key) == number else isMine
    val part = openAt(copyOf(whole), Serializers.ofString)
    try {
      part.keepOnly(new KeyPart[String](1.0 / 3, whole.entryCount, () => test))
      body(part)
    } finally part.close()
  }

  private def expected(whole: Backend, number: Int): Map[String, Any] =
    keys.filter(partOf(_) == number).map(key => key -> read(whole, key)).toMap

  /** What a backend has by way of its snapshot, in which nothing can be hidden. */
  private def contentOf(backend: Backend): Map[String, Any] = {
    val again = openAt(newDirectory(), Serializers.ofString)
    try {
      restored(again, snapshotOf(backend))
      val found = keys.map(key => key -> read(again, key))
      found.filterNot(_._2 == ((null, Nil, Nil))).toMap
    } finally again.close()
  }

  test("each part has the state of its keys, and no other's in snapshots") {
    withDatabase { whole =>
      val counts = (0 to 2).map { number =>
        var count = 0L
        withPart(whole, number) { part =>
          val mine = expected(whole, number)
          assert(mine.forall { case (key, content) => read(part, key) == content })
          assert(contentOf(part) == mine)
          count = part.entryCount
          assert(count == mine.size * 6L)
        }
        count
      }
      assert(counts.sum == whole.entryCount)
    }
  }

  test("a checkpoint of a part has no other's entries") {
    withDatabase { whole =>
      withPart(whole, 1) { part =>
        val again = openAt(copyOf(part), Serializers.ofString)
        try assert(contentOf(again) == expected(whole, 1))
        finally again.close()
      }
    }
  }

  test("what is written while a sweep runs stays, and is counted") {
    withDatabase { whole =>
      val (mine, others) = keys.partition(partOf(_) == 2)
      val (begun, written) = (new CountDownLatch(1), new CountDownLatch(1))
      def isMine(key: String): Boolean = {
        begun.countDown()
        assert(written.await(1, TimeUnit.MINUTES))
        partOf(key) == 2
      }
      withPart(whole, 2, isMine) { part =>
        val sweep = new Thread(() => part.store.hidden.sweep())
        sweep.start()
        assert(begun.await(1, TimeUnit.MINUTES))
        assert(part.entryCount == (whole.entryCount / 3.0).round, "about so many before")
        fill(part, mine, 2)
        part.setCurrentKey(mine.head)
        part.getOrCreate(value).clear()
        part.commit()
        written.countDown()
        sweep.join()
        fill(whole, mine, 2)
        whole.setCurrentKey(mine.head)
        whole.getOrCreate(value).clear()
        assert(part.store.hidden.isEmpty)
        assert(contentOf(part) == expected(whole, 2))
        assert(part.entryCount == whole.entryCount - others.size * 6)
      }
    }
  }

  test("closing waits for the step of a sweep, and ends it") {
    withDatabase { whole =>
      val (begun, closing) = (new CountDownLatch(1), new CountDownLatch(1))
      def isMine(key: String): Boolean = {
        begun.countDown()
        assert(closing.await(1, TimeUnit.MINUTES))
        false
      }
      withPart(whole, 0, isMine) { part =>
        var failure: Throwable = null
        val sweep = new Thread(() => part.store.hidden.sweep())
        sweep.setUncaughtExceptionHandler((_, e) => failure = e)
        sweep.start()
        assert(begun.await(1, TimeUnit.MINUTES))
        val close = new Thread(() => part.close())
        close.start()
        while (close.getState != Thread.State.BLOCKED) Thread.onSpinWait()
        closing.countDown()
        Seq(sweep, close).foreach(_.join())
        assert(failure == null && !part.store.hidden.isEmpty)
      }
    }
  }

  test("a key that a test refuses fails the sweep and the next commit") {
    withDatabase { whole =>
      val refused = new StateRestoreException("STATE_KEY_MISPLACED", "refused")
      withPart(whole, 0, key => if (key == keys(7)) throw refused else true) { part =>
        assert(intercept[StateRestoreException](part.store.hidden.sweep()) eq refused)
        assert(intercept[StateRestoreException](part.commit()) eq refused)
      }
    }
  }

  test("state that is rewritten for another descriptor is rewritten without other parts") {
    withDatabase { whole =>
      withPart(whole, 0) { part =>
        val mine = keys.filter(partOf(_) == 0)
        val living = TestState.value("value", Serializers.ofString, Some(TestState.ttl(1000000L)))
        part.setCurrentKey(mine.head)
        assert(part.getOrCreate(living).value().startsWith("1 of"))
        assert(part.commit().entries == mine.size)
      }
    }
  }

  test("the entries of one database are added to those of another") {
    withDatabase { whole =>
      val others = expected(whole, 1) ++ expected(whole, 2)
      val first = openAt(newDirectory(), Serializers.ofString)
      val source = openAt(copyOf(whole), Serializers.ofString)
      try {
        fill(first, keys.filter(partOf(_) == 0), 3)
        val wanted = expected(first, 0) ++ others
        val joined = openAt(copyOf(first), Serializers.ofString)
        try {
          joined.assumeEntries(first.entryCount)
          Seq(1, 2, 3).foreach(number => joined.restoreFrom(source, partOf(_) == number))
          assert(joined.entryCount == keys.size * 6)
          val found = contentOf(joined)
          keys.foreach(key => assert(found.get(key) == wanted.get(key), key.take(8)))
          fill(joined, keys.take(9), 4)
          joined.commit()
          assert(joined.entryCount == keys.size * 6 + 9 * 3)
        } finally joined.close()
      } finally Seq(first, source).foreach(_.close())
    }
  }
}
