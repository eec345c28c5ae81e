package io.pillarbox.state.heap

import scala.collection.mutable

import io.pillarbox.api.{ExpiryListener, Serializers, ValueState}
import io.pillarbox.state.ScalaHandles._
import io.pillarbox.state._
import org.scalatest.funsuite.AnyFunSuite

/** Clean-up of what nobody reads, a few entries an access. */
class IncrementalCleanupSuite extends AnyFunSuite with HeapFixture {

  private val config = Some(TestState.ttl(100L))

  private def withState(test: (KeyedStateBackend[String], ManualClock) => Unit): Unit = {
    val clock = new ManualClock(1000L)
    withBackend(clock)(test(_, clock))
  }

  private def fill(backend: KeyedStateBackend[String], state: ValueState[String], keys: Int): Unit =
    for (i <- 1 to keys) {
      backend.setCurrentKey(s"k$i")
      state.update("1")
    }

  test("accesses to one key clear away what is expired under all others") {
    withState { (backend, clock) =>
      val (v, l, m) = (
        backend.getOrCreate(value.living(config)),
        backend.getOrCreate(list.living(config)),
        backend.getOrCreate(map.living(config))
      )
      for (i <- 1 to 1000) {
        backend.setCurrentKey(s"k$i")
        v.update("1")
        l.add("1")
        m.put("x", 1L)
      }
      clock.processingTime = 1100L
      backend.setCurrentKey("other")
      for (_ <- 1 to 200) {
        v.value()
        l.get()
        m.isEmpty
      }
      Seq("value", "list", "map").foreach(name => assert(backend.numEntries(name) == 0, name))
    }
  }

  test("eight accesses cost five entries each and no more, all at the first of them") {
    withState { (backend, clock) =>
      val v = backend.getOrCreate(value.living(config))
      fill(backend, v, keys = 100)
      for (_ <- 101 to 104) v.update("1")
      clock.processingTime = 1100L
      backend.setCurrentKey("other")
      for (access <- 1 to 16) {
        v.value()
        assert(backend.numEntries("value") == 100 - (if (access <= 8) 40 else 80))
      }
    }
  }

  test("whenever entries are written or renewed, accesses find them once they are expired") {
    withState { (backend, clock) =>
      val random = new scala.util.Random(11)
      val m = backend.getOrCreate(map.living(config))
      for (_ <- 1 to 300) {
        clock.processingTime += random.nextInt(40)
        for (_ <- 1 to random.nextInt(30)) {
          backend.setCurrentKey(s"k${random.nextInt(50)}")
          m.put(s"e${random.nextInt(3)}", 1L)
        }
        if (random.nextInt(10) == 0) {
          clock.processingTime += 100L
          backend.setCurrentKey("other")
          for (_ <- 1 to 50) m.isEmpty
          assert(backend.numEntries("map") == 0)
        }
      }
    }
  }

  test("the walk goes on where it was while entries come and go, and no living entry is lost") {
    withState { (backend, clock) =>
      val v = backend.getOrCreate(value.living(config))
      val random = new scala.util.Random(11)
      val written = mutable.Map.empty[String, Long]
      for (_ <- 1 to 50000) {
        clock.processingTime += random.nextInt(2)
        val key = s"k${random.nextInt(500)}"
        backend.setCurrentKey(key)
        val alive = written.get(key).exists(_ + 100 > clock.processingTime)
        assert((v.value() != null) == alive)
        random.nextInt(4) match {
          case 0 =>
            v.clear()
            written -= key
          case 1 =>
            v.update("1")
            written(key) = clock.processingTime
          case _ =>
        }
      }
      assert(backend.numEntries("value") < 250)
    }
  }

  test("the listener is told of each expired value once, also by clean-up, with the key it belonged to") {
    withState { (backend, clock) =>
      val told = mutable.ArrayBuffer.empty[(Any, Any, Any)]
      val listener: ExpiryListener = (key, userKey, v) => told += ((key, userKey, v)): Unit
      val m = backend.getOrCreate(map.living(config, onExpire = Some(listener)))
      for (i <- 1 to 50) {
        backend.setCurrentKey(s"k$i")
        m.put("x", i.toLong)
      }
      clock.processingTime = 1100L
      backend.setCurrentKey("other")
      for (_ <- 1 to 40) m.get("y"): Any
      assert(told.toSet == (1 to 50).map(i => (s"k$i", "x", i.toLong)).toSet && told.size == 50)
      assert(backend.currentKey == "other")
    }
  }

  test("clean-up is part of the next commit") {
    withState { (backend, clock) =>
      val v = backend.getOrCreate(value.living(config))
      fill(backend, v, keys = 5)
      val first = bytesOf(backend.commit())
      clock.processingTime = 1100L
      backend.setCurrentKey("other")
      for (_ <- 1 to 8) v.value()
      val second = backend.commit()
      assert(second.entries == 5)
      withBackend(clock) { again =>
        restored(again, first, bytesOf(second))
        again.getOrCreate(value.living(config))
        assert(again.numEntries("value") == 0)
      }
    }
  }

  test("an iteration over a map isn't disturbed by the clean-up that accesses during it do") {
    withState { (backend, clock) =>
      val m = backend.getOrCreate(map.living(config))
      backend.setCurrentKey("dead")
      for (i <- 1 to 100) m.put(s"d$i", 1L)
      clock.processingTime = 1100L
      backend.setCurrentKey("a")
      for (i <- 1 to 100) m.put(s"x$i", 1L)
      var seen = 0
      m.keys.foreach { key =>
        seen += 1
        assert(m.get(key) == 1L)
      }
      assert(seen == 100)
    }
  }

  test("removed entries leave nothing behind: a table that is filled and emptied doesn't grow") {
    val backend = new HeapKeyedStateBackend[String](
      Serializers.ofString,
      new ManualClock,
      tracksChanges = false
    )
    val v = backend.getOrCreate(value)
    for (i <- 1 to 100000) {
      backend.setCurrentKey(s"k$i")
      v.update("1")
      v.clear()
    }
    assert(backend.metrics.entries == 0)
    assertThrows[UnsupportedOperationException](backend.commit())
  }
}
