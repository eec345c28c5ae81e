package io.pillarbox.state.rocksdb

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.api.{Serializers, StateTtl, TimeDomain}
import io.pillarbox.state.ScalaHandles._
import io.pillarbox.state._
import org.scalatest.funsuite.AnyFunSuite

/** Clean-up of what nobody reads, by event time. The cache is small, since the database is what is looked at. */
class EventTimeSweepSuite extends AnyFunSuite with RocksDBFixture {
  override protected def cacheBytes: Int = 16 << 10

  private val ttl: Option[StateTtl] = Some(TestState.ttl(100L, timeDomain = TimeDomain.EVENT_TIME))
  private val keys = (1 to 5000).map(i => s"key $i")

  private def withBackend(test: (RocksDBKeyedStateBackend[String], ManualClock) => Unit): Unit = {
    val clock = new ManualClock
    clock.watermark = 0L
    val backend = openAt(newDirectory(), Serializers.ofString, clock)
    try test(backend, clock)
    finally backend.close()
  }

  /** All is in the database then. */
  private def fill(backend: RocksDBKeyedStateBackend[String]): Unit = {
    val (v, m) = (backend.getOrCreate(value.living(ttl)), backend.getOrCreate(map.living(ttl)))
    keys.foreach { key =>
      backend.setCurrentKey(key)
      v.update(key)
      m.put("x", 1L)
    }
    write(backend)
  }

  private def write(backend: RocksDBKeyedStateBackend[String]): Unit =
    backend.checkpoint(newDirectory().resolve("checkpoint"))

  /** Enough accesses for some rounds, also at the highest price. */
  private def useOther(backend: KeyedStateBackend[String], accesses: Int = 20000): Unit = {
    val (v, m) = (backend.getOrCreate(value.living(ttl)), backend.getOrCreate(map.living(ttl)))
    backend.setCurrentKey("other")
    (1 to accesses).foreach { _ =>
      v.value()
      m.get("x"): Any
    }
  }

  test("accesses to one key remove what has expired under all others, which the next commit tells") {
    withBackend { (backend, clock) =>
      fill(backend)
      val first = bytesOf(backend.commit())
      useOther(backend)
      assert(backend.numEntries("value") == keys.size && backend.numEntries("map") == keys.size)
      clock.watermark = 99L
      useOther(backend)
      assert(backend.numEntries("value") == keys.size && backend.numEntries("map") == keys.size)
      clock.watermark = 100L
      useOther(backend)
      assert(backend.numEntries("value") == 0 && backend.numEntries("map") == 0)
      val second = backend.commit()
      assert(second.entries == 2 * keys.size)
      val copy = openAt(newDirectory(), Serializers.ofString, clock)
      try {
        restored(copy, first, bytesOf(second))
        copy.getOrCreate(value.living(ttl))
        assert(copy.numEntries("value") == 0)
      } finally copy.close()
    }
  }

  test("the number of entries is exact behind removals, also of what the cache has newer") {
    withBackend { (backend, clock) =>
      fill(backend)
      clock.watermark = 100L
      clock.recordTimestamp = 100L
      val v = backend.getOrCreate(value.living(ttl))
      keys.take(100).foreach { key =>
        backend.setCurrentKey(key)
        v.update("again")
      }
      useOther(backend)
      assert(backend.numEntries("value") == 100)
      keys.take(100).foreach { key =>
        backend.setCurrentKey(key)
        assert(v.value() == "again")
      }
    }
  }

  test("the map of the current key is left alone, over which the accesses go") {
    withBackend { (backend, clock) =>
      fill(backend)
      val m = backend.getOrCreate(map.living(ttl))
      backend.setCurrentKey("mine")
      clock.recordTimestamp = 100L
      (1 to 3000).foreach(i => m.put(s"x $i", i.toLong))
      clock.watermark = 100L
      write(backend)
      var seen = 0
      m.keys.foreach { _ =>
        seen += 1
        // All of the map has expired then, for who begins to read it.
        clock.watermark = 200L
        (1 to 10).foreach(_ => assert(!m.contains("nothing")))
      }
      assert(seen == 3000)
      assert(backend.numEntries("map") == 3000)
      useOther(backend)
      assert(backend.numEntries("map") == 0)
    }
  }

  test("the walk goes on where it was while entries come and go, and no living entry is lost") {
    withBackend { (backend, clock) =>
      val v = backend.getOrCreate(value.living(ttl))
      val random = new Random(11)
      val written = mutable.Map.empty[String, Long]
      (1 to 20000).foreach { _ =>
        if (random.nextInt(8) == 0) clock.watermark += 1
        val key = s"k${random.nextInt(5000)}"
        backend.setCurrentKey(key)
        clock.recordTimestamp = clock.watermark
        val alive = written.get(key).exists(_ + 100 > clock.watermark)
        assert((v.value() != null) == alive)
        random.nextInt(4) match {
          case 0 =>
            v.clear()
            written -= key
          case 1 | 2 =>
            v.update("1")
            written(key) = clock.watermark
          case _ =>
        }
      }
      val living = written.values.count(_ + 100 > clock.watermark)
      assert(backend.numEntries("value") >= living)
      assert(backend.numEntries("value") < 4 * living)
    }
  }
}
