package io.pillarbox.state

import java.util.ConcurrentModificationException
import java.util.Map.Entry

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import io.pillarbox.api.TestSerializers
import io.pillarbox.api.{
  AggregatingState,
  InputView,
  MapState,
  OutputView,
  ReducingState,
  ScalaSerializers,
  SerializerSnapshot,
  Serializers,
  StateDescriptor,
  TypeSerializer
}
import io.pillarbox.state.ScalaHandles._
import io.pillarbox.tags.Nightly
import org.scalatest.funsuite.AnyFunSuite

/** What every backend must do, TTL and persistence apart. */
abstract class KeyedStateContract extends AnyFunSuite with StateFixture {

  test("a value is null until it is set, and null clears it") {
    withBackend() { backend =>
      val state = backend.getOrCreate(value)
      backend.setCurrentKey("a")
      assert(state.value() == null)
      state.update("1")
      assert(state.value() == "1")
      state.update("2")
      assert(state.value() == "2")
      state.update(null)
      assert(state.value() == null)
      state.clear()
      assert(state.value() == null)
    }
  }

  test("each key and each namespace has its own state") {
    withBackend() { backend =>
      val state = backend.getOrCreate(value)
      val window = Namespace.of(Array[Byte](1, 2))
      for (key <- Seq("a", "b")) {
        backend.setCurrentKey(key)
        state.update(key)
        backend.setCurrentNamespace(window)
        assert(state.value() == null)
        state.update(key + " in the window")
      }
      backend.setCurrentKey("a")
      assert(state.value() == "a")
      backend.setCurrentNamespace(window)
      assert(state.value() == "a in the window")
      state.clear()
      assert(state.value() == null)
      backend.setCurrentKey("a")
      assert(state.value() == "a")
      backend.setCurrentKey("b")
      backend.setCurrentNamespace(Namespace.of(Array[Byte](1, 2)))
      assert(state.value() == "b in the window")
    }
  }

  test("many keys are kept apart while some are removed") {
    withBackend() { backend =>
      val state = backend.getOrCreate(value)
      val model = mutable.Map.empty[String, String]
      val random = new scala.util.Random(7)
      for (step <- 1 to 20000) {
        val key = "k" + random.nextInt(3000)
        backend.setCurrentKey(key)
        assert(state.value() == model.getOrElse(key, null))
        if (random.nextInt(3) == 0) {
          state.clear()
          model -= key
        } else {
          state.update(s"v$step")
          model(key) = s"v$step"
        }
      }
      assert(backend.numEntries("value") == model.size)
    }
  }

  test("a list keeps the order of addition") {
    withBackend() { backend =>
      val state = backend.getOrCreate(list)
      backend.setCurrentKey("a")
      assert(state.get().isEmpty)
      state.add("1")
      state.addAll(Seq("2", "3"))
      backend.setCurrentKey("b")
      state.add("x")
      backend.setCurrentKey("a")
      state.add("4")
      assert(state.get().toSeq == Seq("1", "2", "3", "4"))
      state.update(Seq("5", "6"))
      assert(state.get().toSeq == Seq("5", "6"))
      state.update(Seq.empty[String])
      assert(state.get().isEmpty)
      assert(backend.numEntries("list") == 1)
    }
  }

  test("a list of thousands grows and is cleared") {
    withBackend() { backend =>
      val state = backend.getOrCreate(list)
      backend.setCurrentKey("a")
      for (i <- 1 to 3000) state.add(i.toString)
      assert(state.get().map(_.toInt).toSeq == (1 to 3000))
      assert(backend.numEntries("list") == 3000)
      state.clear()
      assert(backend.numEntries("list") == 0)
    }
  }

  test("a list is read a page at a time, while other keys are current in between") {
    withBackend() { backend =>
      val elements = backend.timestampedList[String](list)
      val model = (0 until 5000).map(i => s"element $i, long enough for many chunks")
      for (key <- Seq("a", "b")) {
        backend.setCurrentKey(key)
        model.foreach(value => elements.add(key + value, StateClock.Unknown))
      }
      for (key <- Seq("a", "b", "nothing"); size <- Seq(1, 700, 100000)) {
        val found = mutable.ArrayBuffer.empty[String]
        var place = TimestampedList.First
        var pages = 0
        while (place != TimestampedList.End) {
          backend.setCurrentKey("b")
          elements.elements.next(): Unit
          backend.setCurrentKey(key)
          val before = found.size
          place = elements.page(place) { (element, _) =>
            found += element
            found.size - before < size
          }
          pages += 1
        }
        assert(found == (if (key == "nothing") Nil else model.map(key + _)))
        assert(pages > (if (key == "nothing" || size > 5000) 0 else 5))
      }
    }
  }

  test("a map is read a page at a time, while other keys are current in between") {
    withBackend() { backend =>
      val entries = backend.timestampedMap[String, Long](map)
      for (key <- Seq("a", "b"); i <- 0 until 1000) {
        backend.setCurrentKey(key)
        entries.put(s"$key$i", i.toLong)
        if (i % 3 == 0) entries.remove(s"$key${i / 2}")
      }
      val left = entries.keyIterator.asScala.toSet
      for (size <- Seq(1, 7, 10000)) {
        val found = mutable.ArrayBuffer.empty[String]
        var cursor = entries.cursor(few = false)
        var more = cursor.next()
        while (more) {
          found += cursor.key
          if (found.size % size != 0) more = cursor.next()
          else {
            val place = cursor.place
            backend.setCurrentKey("a")
            entries.get("a1"): Unit
            backend.setCurrentKey("b")
            cursor = entries.cursorBehind(place)
            more = cursor.next()
          }
        }
        assert(found.size == left.size && found.toSet == left)
      }
    }
  }

  test("a map gets, puts, removes and tells what it has") {
    withBackend() { backend =>
      val state = backend.getOrCreate(map)
      backend.setCurrentKey("a")
      assert(state.isEmpty && !state.contains("x") && state.entries.isEmpty)
      state.put("x", 1L)
      state.putAll(Seq("y" -> 2L, "z" -> 3L))
      backend.setCurrentKey("b")
      state.put("x", 9L)
      backend.setCurrentKey("a")
      assert(state.get("x") == 1L && state.contains("y") && !state.isEmpty)
      state.put("x", 10L)
      state.remove("y")
      state.remove("not there")
      assert(state.entries.map(e => e.getKey -> e.getValue).toMap == Map("x" -> 10L, "z" -> 3L))
      assert(state.keys.toSet == Set("x", "z"))
      assert(state.values.toSet == Set(10L, 3L))
      state.clear()
      assert(state.isEmpty)
      backend.setCurrentKey("b")
      assert(state.get("x") == 9L)
    }
  }

  test("an absent entry of a map is null, not zero") {
    withBackend() { backend =>
      val state = backend.getOrCreate(map)
      backend.setCurrentKey("a")
      assert((state: MapState[String, _]).get("x") == null)
      state.put("y", 1L)
      assert((state: MapState[String, _]).get("x") == null)
    }
  }

  test("a map's iterator removes what it returned last, also after hasNext") {
    withBackend() { backend =>
      val state = backend.getOrCreate(map)
      backend.setCurrentKey("a")
      for (i <- 1 to 500) state.put(i.toString, i.toLong)
      val iterator = state.entries
      assertThrows[IllegalStateException](iterator.remove())
      while (iterator.hasNext) {
        val entry = iterator.next()
        iterator.hasNext
        if (entry.getValue % 2 == 0) iterator.remove()
      }
      assert(state.values.toSet == (1L to 500L by 2).toSet)
    }
  }

  test("a map that changes under its iterator ends the iteration, a replaced value doesn't") {
    withBackend() { backend =>
      val state = backend.getOrCreate(map)
      backend.setCurrentKey("a")
      state.putAll(Seq("x" -> 1L, "y" -> 2L, "z" -> 3L))
      val replaced = state.keyWalk
      val first = replaced.next()
      state.put(first, 7L)
      assert(replaced.toSet == Set("x", "y", "z") - first)
      val added = state.keyWalk
      state.put("w", 4L)
      assertThrows[ConcurrentModificationException](added.hasNext)
      val moved = state.keyWalk
      backend.setCurrentKey("b")
      assertThrows[ConcurrentModificationException](moved.hasNext)
    }
  }

  test("a value that is replaced under a map's iterator is the one that it returns, also after hasNext") {
    withBackend() { backend =>
      val state = backend.getOrCreate(map)
      backend.setCurrentKey("a")
      val keys = (1 to 400).map(_.toString)
      for (looksAhead <- Seq(false, true)) {
        keys.foreach(state.put(_, 0L))
        val iterator = state.entries
        var seen = Map.empty[String, Long]
        for (step <- 1 to keys.size) {
          if (looksAhead) assert(iterator.hasNext)
          keys.foreach(key => if (!seen.contains(key) && (step % 40 == 1)) state.put(key, step.toLong))
          val entry = iterator.next()
          assert(entry.getValue == (step - 1) / 40 * 40 + 1, s"of ${entry.getKey} at step $step")
          seen += entry.getKey -> entry.getValue
        }
        assert(!iterator.hasNext && seen.keySet == keys.toSet)
      }
    }
  }

  test("setValue of a map's entry puts the value, and the iteration goes on") {
    withBackend() { backend =>
      val state = backend.getOrCreate(map)
      backend.setCurrentKey("a")
      (1 to 300).foreach(i => state.put(i.toString, i.toLong))
      backend.commit()
      state.entries.foreach { entry =>
        assert(entry.setValue(entry.getValue * 2) * 2 == entry.getValue)
      }
      assert(
        state.entries.map(e => e.getKey -> e.getValue).toMap ==
          (1 to 300).map(i => i.toString -> i * 2L).toMap
      )
      assert(backend.commit().entries == 300, "and a commit tells of it")
    }
  }

  test("setValue of an entry that is gone, or of another key's map, is an error and changes nothing") {
    withBackend() { backend =>
      val state = backend.getOrCreate(map)
      Seq("b", "a").foreach { key =>
        backend.setCurrentKey(key)
        state.put("x", 1L)
        state.put("y", 2L)
      }
      val iterator = state.entries
      val removed = iterator.next()
      iterator.remove()
      assertThrows[IllegalStateException](removed.setValue(7L))
      val other = iterator.next()
      assertThrows[IllegalArgumentException](other.asInstanceOf[Entry[String, Any]].setValue(null))
      backend.setCurrentKey("b")
      assertThrows[ConcurrentModificationException](other.setValue(7L))
      assert(state.values.toSet == Set(1L, 2L))
      backend.setCurrentKey("a")
      assert(state.values.toSeq == Seq(other.getValue))
    }
  }

  test("a list that changes under its iterator ends the iteration") {
    withBackend() { backend =>
      val state = backend.getOrCreate(list)
      backend.setCurrentKey("a")
      state.addAll(Seq("1", "2"))
      val iterator = state.get().iterator
      assert(iterator.next() == "1")
      state.add("3")
      assertThrows[ConcurrentModificationException](iterator.next())
    }
  }

  test("reducing and aggregating states combine what is added") {
    withBackend() { backend =>
      val (total, average) = (backend.getOrCreate(sum), backend.getOrCreate(mean))
      backend.setCurrentKey("a")
      assert((total: ReducingState[_]).get() == null && (average: AggregatingState[_, _]).get() == null)
      Seq(1L, 2L, 6L).foreach { n => total.add(n); average.add(n) }
      assert(total.get() == 9L && average.get() == 3.0)
      total.clear()
      total.add(5L)
      assert(total.get() == 5L)
    }
  }

  test("null is not a value") {
    withBackend() { backend =>
      val (l, m, r) = (backend.getOrCreate(list), backend.getOrCreate(map), backend.getOrCreate(sum))
      backend.setCurrentKey("a")
      l.add("1")
      assertThrows[IllegalArgumentException](l.add(null))
      assertThrows[IllegalArgumentException](l.addAll(Seq("2", null)))
      assertThrows[IllegalArgumentException](l.update(Seq("2", null)))
      assert(l.get().toSeq == Seq("1"))
      assertThrows[IllegalArgumentException](m.put(null, 1L))
      assertThrows[IllegalArgumentException](m.get(null))
      assertThrows[IllegalArgumentException](m.asInstanceOf[MapState[String, AnyRef]].put("x", null))
      assertThrows[IllegalArgumentException](r.asInstanceOf[ReducingState[AnyRef]].add(null))
    }
  }

  test("a list takes elements that can be iterated over once only, and its own") {
    withBackend() { backend =>
      val l = backend.getOrCreate(list)
      def once(elements: String*): java.lang.Iterable[String] = {
        val iterator = elements.iterator.asJava
        () => iterator
      }
      backend.setCurrentKey("a")
      l.addAll(once("1", "2"))
      assert(l.get().toSeq == Seq("1", "2"))
      assertThrows[IllegalArgumentException](l.addAll(once("3", null)))
      l.addAll(l.get())
      assert(l.get().toSeq == Seq("1", "2", "1", "2"))
      l.update(once("3", "4"))
      assert(l.get().toSeq == Seq("3", "4"))
      l.update(l.get())
      assert(l.get().toSeq == Seq("3", "4"))
      assertThrows[NullPointerException](l.addAll(null.asInstanceOf[java.lang.Iterable[String]]))
    }
  }

  test("keys of a map are one where their bytes are, whatever their class calls equal") {
    withBackend() { backend =>
      val keys = StateDescriptor.map("by array", LongArraySerializer, ScalaSerializers.long)
      val m = backend.getOrCreate(keys)
      backend.setCurrentKey("a")
      m.put(Array(1L, 2L), 1L)
      m.put(Array(1L, 2L), 2L)
      m.put(Array(1L, 3L), 3L)
      assert(m.keys.size == 2 && m.get(Array(1L, 2L)) == 2L && m.contains(Array(1L, 3L)))
      m.remove(Array(1L, 2L))
      assert(m.keys.map(_.toSeq).toSeq == Seq(Seq(1L, 3L)))
    }
  }

  test("keyed access without a key is an error, and so is a null key") {
    withBackend() { backend =>
      val state = backend.getOrCreate(value)
      val error = intercept[StateAccessException](state.value())
      assert(error.condition == "STATE_WITHOUT_KEY")
      backend.setCurrentKey("a")
      state.update("1")
      backend.clearCurrentKey()
      assert(intercept[StateAccessException](state.update("2")).condition == "STATE_WITHOUT_KEY")
      assertThrows[IllegalArgumentException](backend.setCurrentKey(null))
    }
  }

  test("state used from another thread is an error that names both threads") {
    withBackend() { backend =>
      val state = backend.getOrCreate(value)
      backend.setCurrentKey("a")
      var failure: Throwable = null
      val other = new Thread(() => failure = intercept[StateAccessException](state.value()), "intruder")
      other.start()
      other.join()
      assert(failure.getMessage.contains("intruder"))
      assert(failure.getMessage.contains(Thread.currentThread.getName))
    }
  }

  test("ownership moves to the thread that takes it") {
    withBackend() { backend =>
      val state = backend.getOrCreate(value)
      var seen: String = null
      val other = new Thread(() => {
        backend.takeOwnership()
        backend.setCurrentKey("a")
        state.update("1")
        seen = state.value()
      })
      other.start()
      other.join()
      assert(seen == "1")
      assertThrows[StateAccessException](state.value())
    }
  }

  test("one name is one type") {
    withBackend() { backend =>
      val state = backend.getOrCreate(value)
      assert(backend.getOrCreate(value) eq state)
      assertThrows[StateRegistrationException](
        backend.getOrCreate(TestState.list("value", Serializers.ofString))
      )
      assertThrows[StateRegistrationException](
        backend.getOrCreate(TestState.value("value", ScalaSerializers.long))
      )
      assertThrows[StateRegistrationException](
        backend.getOrCreate(value.living(Some(TestState.ttl(5L))))
      )
      assertThrows[IllegalArgumentException](TestState.value("", Serializers.ofString))
    }
  }

  test("keys of every type of serializer find their state again, byte arrays by content") {
    val backend =
      openBackend(TestSerializers.tuple2(Serializers.ofBytes, ScalaSerializers.double), new ManualClock)
    try {
      val state = backend.getOrCreate(value)
      backend.setCurrentKey((Array[Byte](1, 2), Double.NaN))
      state.update("found")
      backend.setCurrentKey((Array[Byte](1, 2), -Double.NaN))
      assert(state.value() == "found")
      backend.setCurrentKey((null, 0.0))
      assert(state.value() == null)
      state.update("null field")
      backend.setCurrentKey((Array[Byte](1, 2), 0.0))
      assert(state.value() == null)
      backend.setCurrentKey((null, 0.0))
      assert(state.value() == "null field")
    } finally backend.close()
  }

  test("a value of 64 MiB is stored, committed and restored", Nightly) {
    val big = new Array[Byte](64 << 20)
    new java.util.Random(3).nextBytes(big)
    val descriptor = TestState.value("big", Serializers.ofBytes)
    val backend = openBackend(Serializers.ofString, new ManualClock)
    val again = openBackend(Serializers.ofString, new ManualClock)
    try {
      val state = backend.getOrCreate(descriptor)
      backend.setCurrentKey("a")
      state.update(big)
      assert(java.util.Arrays.equals(state.value(), big))
      restored(again, bytesOf(backend.commit()))
      val copy = again.getOrCreate(descriptor)
      again.setCurrentKey("a")
      assert(java.util.Arrays.equals(copy.value(), big))
    } finally {
      backend.close()
      again.close()
    }
  }

  test("a closed backend says so") {
    val backend = openBackend(Serializers.ofString, new ManualClock)
    val state = backend.getOrCreate(value)
    backend.setCurrentKey("a")
    backend.close()
    backend.close()
    assert(intercept[StateAccessException](state.value()).condition == "STATE_CLOSED")
    assert(intercept[StateAccessException](backend.setCurrentKey("a")).condition == "STATE_CLOSED")
  }
}

/** Of a class whose `equals` is that of the object. */
private object LongArraySerializer extends TypeSerializer[Array[Long]] {

  override def serialize(value: Array[Long], out: OutputView): Unit = {
    out.writeVarInt(value.length)
    value.foreach(out.writeLong)
  }

  override def deserialize(in: InputView): Array[Long] = Array.fill(in.readVarInt())(in.readLong())

  override def copy(value: Array[Long]): Array[Long] = value.clone()

  override def snapshot: SerializerSnapshot = SerializerSnapshot.of("longs")
}
