package io.pillarbox.state

import scala.collection.mutable

import io.pillarbox.api.StateTtl._
import io.pillarbox.api.{
  ExpiryListener,
  ListState,
  MapState,
  ReducingState,
  ScalaSerializers,
  StateTtl,
  TimeDomain,
  ValueState
}
import io.pillarbox.state.ScalaHandles._
import org.scalatest.funsuite.AnyFunSuite

/** What TTL must do on every backend. The heap's clean-up of other keys is off. */
abstract class TtlContract extends AnyFunSuite with StateFixture {

  private def ttl(
      update: Update = Update.ON_CREATE_AND_WRITE,
      visibility: Visibility = Visibility.NEVER_RETURN_EXPIRED,
      time: TimeDomain = TimeDomain.PROCESSING_TIME,
      millis: Long = 100L
  ): Option[StateTtl] =
    Some(TestState.ttl(millis, update, visibility, time))

  private def run(test: (KeyedStateBackend[String], ManualClock) => Unit): Unit = {
    val clock = new ManualClock(1000L)
    withBackend(clock, sweeps = false) { backend =>
      backend.setCurrentKey("a")
      test(backend, clock)
    }
  }

  test("a value is expired when its timestamp plus ttl is now, not a millisecond earlier") {
    run { (backend, clock) =>
      val state = backend.getOrCreate(value.living(ttl()))
      state.update("1")
      clock.processingTime = 1099L
      assert(state.value() == "1")
      clock.processingTime = 1100L
      assert(state.value() == null)
      clock.processingTime = 1000L
      assert(state.value() == null, "it was removed when it was met")
    }
  }

  test("a ttl that would end after the end of time never expires") {
    run { (backend, clock) =>
      val state = backend.getOrCreate(value.living(ttl(millis = Long.MaxValue - 10)))
      state.update("1")
      clock.processingTime = Long.MaxValue
      assert(state.value() == "1")
    }
  }

  test("Update.ON_CREATE_AND_WRITE renews by writing only, Update.ON_READ_AND_WRITE by reading too") {
    for ((update, alive) <- Seq(Update.ON_CREATE_AND_WRITE -> false, Update.ON_READ_AND_WRITE -> true)) run {
      (backend, clock) =>
        val state = backend.getOrCreate(value.living(ttl(update)))
        state.update("1")
        clock.processingTime = 1060L
        assert(state.value() == "1")
        clock.processingTime = 1120L
        assert((state.value() == "1") == alive)
        state.update("2")
        clock.processingTime = 1200L
        assert(state.value() == "2")
    }
  }

  /** The stamped state behind a value, a list, a map and an aggregate. */
  private def raw(
      backend: KeyedStateBackend[String],
      ttl: Option[StateTtl]
  ): (
      TimestampedValue[String],
      TimestampedList[String],
      TimestampedMap[String, Long],
      TimestampedValue[Long]
  ) = (
    backend.timestampedValue(value.living(ttl)),
    backend.timestampedList[String](list.living(ttl)),
    backend.timestampedMap[String, Long](map.living(ttl)),
    backend.timestampedValue(sum.living(ttl))
  )

  private def stampsOf[T](value: TimestampedValue[T]): Option[Long] =
    Option.when(value.find())(value.timestamp)

  private def stampsOf(map: TimestampedMap[String, Long]): Map[String, Long] = {
    val cursor = map.cursor(few = false)
    Iterator.continually(cursor).takeWhile(_.next()).map(at => at.key -> at.timestamp).toMap
  }

  test("stamped access tells timestamps, and neither renews, hides nor removes anything") {
    run { (backend, clock) =>
      val (one, many, named, _) = raw(backend, ttl(Update.ON_READ_AND_WRITE))
      val timestamps = () => (stampsOf(one), many.timestamps.toList, stampsOf(named))
      assert(timestamps() == ((None, Nil, Map.empty)))
      backend.getOrCreate(value.living(ttl(Update.ON_READ_AND_WRITE))).update("1")
      val handle = backend.getOrCreate(list.living(ttl(Update.ON_READ_AND_WRITE)))
      handle.add("1")
      backend.getOrCreate(map.living(ttl(Update.ON_READ_AND_WRITE))).put("x", 1L)
      clock.processingTime = 1050L
      handle.add("2")
      clock.processingTime = 5000L
      for (_ <- 1 to 2) {
        assert(timestamps() == ((Some(1000L), List(1000L, 1050L), Map("x" -> 1000L))))
        assert((one.value(), many.get().toList, named.get("x")) == (("1", List("1", "2"), 1L)))
        assert(named.contains("x") && !named.isEmpty)
      }
      assert(backend.commit().entries == 4)
    }
  }

  test("what is put with a timestamp has exactly that one, an earlier one than before too") {
    for (time <- Seq(TimeDomain.PROCESSING_TIME, TimeDomain.EVENT_TIME)) run { (backend, clock) =>
      clock.watermark = 900L
      clock.recordTimestamp = 1000L
      val one = backend.getOrCreate(value.living(ttl(time = time)))
      val many = backend.getOrCreate(list.living(ttl(time = time)))
      val named = backend.getOrCreate(map.living(ttl(time = time)))
      val total = backend.getOrCreate(sum.living(ttl(time = time)))
      one.update("1")
      many.add("1")
      named.put("x", 1L)
      named.put("y", 1L)
      total.add(1L)
      val (rawOne, rawMany, rawNamed, rawTotal) = raw(backend, ttl(time = time))
      rawOne.put("2", 950L)
      rawMany.add("2", 950L)
      rawNamed.put("x", 2L, 950L)
      assert(rawNamed.find("y") && rawNamed.timestamp == 1000L)
      rawNamed.replace("y", 2L, 940L)
      rawTotal.put(2L, 950L)
      assert(stampsOf(rawNamed) == Map("x" -> 950L, "y" -> 940L) && stampsOf(rawTotal).contains(950L))
      clock.watermark = 1050L
      clock.processingTime = 1050L
      assert(one.value() == null && named.isEmpty && (total: ReducingState[_]).get() == null)
      assert(many.get().toList == List("1"))
    }
  }

  test("a timestamp is replaced in place, and commits and cursors see it") {
    run { (backend, _) =>
      val (one, _, named, _) = raw(backend, ttl())
      one.put("1", 1L)
      Seq("x", "y", "z").foreach(named.put(_, 7L, 1L))
      backend.commit()
      assert(one.value() == "1")
      one.setTimestamp(2L)
      assert(named.get("x") == 7L)
      named.setTimestamp(3L)
      val cursor = named.cursor(few = true)
      while (cursor.next()) cursor.key match {
        case "x" => assert(cursor.timestamp == 3L)
        case "y" =>
          cursor.setTimestamp(4L)
          assert(cursor.value == 7L)
        case _ =>
          cursor.take()
          cursor.remove()
      }
      assert(stampsOf(one).contains(2L) && stampsOf(named) == Map("x" -> 3L, "y" -> 4L))
      assert(one.value() == "1" && named.get("x") == 7L && named.get("y") == 7L)
      assert(backend.commit().entries == 4)
    }
  }

  test("one reading of a list drops what is old, raises the rest and timestamps what has no timestamp") {
    run { (backend, _) =>
      val (_, many, _, _) = raw(backend, ttl())
      val told = mutable.ArrayBuffer.empty[Any]
      val gone: ExpirySink = (_, _, _, element) => told += element: Unit
      val none = StateClock.Unknown
      Seq(10L, none, 30L, 20L).foreach(timestamp => many.add(s"$timestamp", timestamp))
      backend.commit()
      assert(many.read(none, none, none, gone).size == 4 && backend.commit().entries == 0)
      assert(many.read(10L, none, none, gone).size == 3, "what has no timestamp isn't old")
      assert(many.timestamps.toList == List(none, 30L, 20L) && told.toList == List("10"))
      assert(many.read(15L, none, 16L, gone).size == 3)
      assert(many.timestamps.toList == List(16L, 30L, 20L))
      backend.commit()
      assert(many.read(20L, 25L, none, gone).toList == List("30"))
      assert(told.toList == List("10", s"$none", "20") && many.timestamps.toList == List(30L))
      many.add("late", 5L)
      backend.commit()
      assert(many.read(none, 40L, none, gone).size == 2)
      assert(many.timestamps.toList == List(40L, 40L) && backend.commit().entries == 1)
      many.add("none", none)
      assert(many.read(6L, none, 6L, gone).size == 2, "without a timestamp, and stamped so late")
    }
  }

  test(
    "Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP shows an expired value once, and reading it doesn't renew it"
  ) {
    run { (backend, clock) =>
      val state = backend.getOrCreate(
        value.living(ttl(Update.ON_READ_AND_WRITE, Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP))
      )
      state.update("1")
      clock.processingTime = 1100L
      assert(state.value() == "1")
      assert(state.value() == null)
    }
  }

  test("each element of a list has its own life") {
    run { (backend, clock) =>
      val state = backend.getOrCreate(list.living(ttl()))
      for (i <- 0 to 4) {
        clock.processingTime = 1000L + i * 30
        state.add(i.toString)
      }
      assert(state.get().toSeq == Seq("1", "2", "3", "4"))
      clock.processingTime = 1130L
      assert(state.get().toSeq == Seq("2", "3", "4"))
      assert(backend.numEntries("list") == 3)
      clock.processingTime = 2000L
      assert(state.get().isEmpty)
      assert(backend.numEntries("list") == 0)
    }
  }

  test("a list read under Update.ON_READ_AND_WRITE is renewed, its expired elements aren't") {
    run { (backend, clock) =>
      val state = backend.getOrCreate(list.living(ttl(Update.ON_READ_AND_WRITE)))
      state.add("1")
      clock.processingTime = 1050L
      state.add("2")
      clock.processingTime = 1100L
      assert(state.get().toSeq == Seq("2"))
      clock.processingTime = 1199L
      assert(state.get().toSeq == Seq("2"))
      state.add("3")
      clock.processingTime = 1299L
      assert(state.get().isEmpty)
    }
  }

  test("expired elements are shown once, in their place") {
    run { (backend, clock) =>
      val state =
        backend.getOrCreate(list.living(ttl(visibility = Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)))
      state.add("1")
      clock.processingTime = 1050L
      state.add("2")
      clock.processingTime = 1120L
      assert(state.get().toSeq == Seq("1", "2"))
      assert(state.get().toSeq == Seq("2"))
    }
  }

  test("reading a list under Update.ON_READ_AND_WRITE changes one entry, not the whole list (FLINK ✗)") {
    run { (backend, clock) =>
      val state = backend.getOrCreate(list.living(ttl(Update.ON_READ_AND_WRITE)))
      state.addAll((1 to 1000).map(_.toString))
      backend.commit()
      clock.processingTime = 1010L
      assert(state.get().size == 1000)
      assert(backend.commit().entries == 1)
      clock.processingTime = 1105L
      assert(state.get().size == 1000, "the one entry has renewed all")
    }
  }

  test("expiry of one element changes one entry, not the whole list (FLINK ✗)") {
    run { (backend, clock) =>
      val state = backend.getOrCreate(list.living(ttl()))
      state.add("old")
      clock.processingTime = 1050L
      state.addAll((1 to 1000).map(_.toString))
      backend.commit()
      clock.processingTime = 1100L
      assert(state.get().size == 1000)
      assert(backend.commit().entries == 1)
    }
  }

  test("each entry of a map has its own life, and contains counts as a read") {
    run { (backend, clock) =>
      val state = backend.getOrCreate(map.living(ttl(Update.ON_READ_AND_WRITE)))
      state.put("read", 1L)
      state.put("asked", 2L)
      state.put("left", 3L)
      clock.processingTime = 1090L
      assert(state.get("read") == 1L && state.contains("asked"))
      clock.processingTime = 1150L
      assert(state.keys.toSet == Set("read", "asked"))
      assert(!state.contains("left") && backend.numEntries("map") == 2)
      clock.processingTime = 1249L
      assert(state.entries.size == 2, "iteration renews")
      clock.processingTime = 1349L
      assert(state.entries.isEmpty)
    }
  }

  test("an expired entry that is put anew under a map's iterator is alive, and stays so over a commit") {
    for (looksAhead <- Seq(false, true)) run { (backend, clock) =>
      val state = backend.getOrCreate(map.living(ttl()))
      val keys = (1 to 300).map(_.toString)
      keys.foreach(state.put(_, 0L))
      backend.commit()
      val first = state.keys.next()
      clock.processingTime = 1050L
      state.put(first, 1L)
      clock.processingTime = 1120L
      val iterator = state.entries
      assert(iterator.next().getKey == first)
      (keys.toSet - first).foreach(state.put(_, 99L))
      if (looksAhead) assert(iterator.hasNext)
      (keys.toSet - first).foreach(state.put(_, 100L))
      assert(iterator.map(e => e.getKey -> e.getValue).toMap == (keys.toSet - first).map(_ -> 100L).toMap)
      backend.commit()
      assert(state.values.toSeq.sorted == 1L +: Seq.fill(299)(100L))
    }
  }

  test("setValue of a map's entry renews it, and can't bring an expired one back") {
    run { (backend, clock) =>
      val state =
        backend.getOrCreate(map.living(ttl(visibility = Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)))
      state.putAll(Seq("x" -> 1L, "y" -> 2L))
      clock.processingTime = 1090L
      state.entries.foreach(entry => if (entry.getKey == "x") assert(entry.setValue(5L) == 1L))
      clock.processingTime = 1100L
      val entries = state.entries
      val (alive, expired) = (entries.next(), entries.next()) match {
        case (x, y) if x.getKey == "x" => (x, y)
        case (y, x) => (x, y)
      }
      assertThrows[IllegalStateException](expired.setValue(6L))
      assert(alive.setValue(7L) == 5L)
      clock.processingTime = 1199L
      assert(state.entries.map(e => e.getKey -> e.getValue).toMap == Map("x" -> 7L))
    }
  }

  test("isEmpty of a map doesn't count expired entries (FLINK ✗)") {
    run { (backend, clock) =>
      val state = backend.getOrCreate(map.living(ttl()))
      state.put("x", 1L)
      assert(!state.isEmpty)
      clock.processingTime = 1050L
      state.put("y", 1L)
      clock.processingTime = 1100L
      assert(!state.isEmpty)
      clock.processingTime = 1150L
      assert(state.isEmpty)
    }
  }

  test("expired entries of a map are shown once") {
    run { (backend, clock) =>
      val state =
        backend.getOrCreate(map.living(ttl(visibility = Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)))
      state.putAll(Seq("x" -> 1L, "y" -> 2L, "z" -> 3L))
      clock.processingTime = 1100L
      assert(state.get("x") == 1L)
      assert(state.contains("y"))
      assert(state.keys.toSet == Set("z"))
      assert(state.isEmpty && state.entries.isEmpty)
    }
  }

  test("what is added to an expired aggregate starts afresh, or goes on if the expired may be seen") {
    for (
      (visibility, expected) <- Seq(
        Visibility.NEVER_RETURN_EXPIRED -> 2L,
        Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP -> 3L
      )
    )
      run { (backend, clock) =>
        val total = backend.getOrCreate(sum.living(ttl(visibility = visibility)))
        val average = backend.getOrCreate(mean.living(ttl(visibility = visibility)))
        total.add(1L)
        average.add(1L)
        clock.processingTime = 1100L
        total.add(2L)
        average.add(2L)
        assert(total.get() == expected)
        assert(average.get() == expected.toDouble / (expected - 1))
        clock.processingTime = 1199L
        assert(total.get() == expected, "adding renews")
      }
  }

  test("in event time the timestamp is the later of record and stored, and the watermark is the clock") {
    run { (backend, clock) =>
      val state = backend.getOrCreate(value.living(ttl(time = TimeDomain.EVENT_TIME)))
      clock.recordTimestamp = 500L
      state.update("1")
      clock.recordTimestamp = 450L
      state.update("2")
      clock.processingTime = 100000L
      clock.watermark = 599L
      assert(state.value() == "2", "the earlier record did not take time away")
      clock.watermark = 600L
      assert(state.value() == null)
    }
  }

  test("event time acts on lists, maps and aggregates, out of order") {
    run { (backend, clock) =>
      val l = backend.getOrCreate(list.living(ttl(time = TimeDomain.EVENT_TIME)))
      val m = backend.getOrCreate(map.living(ttl(time = TimeDomain.EVENT_TIME)))
      val s = backend.getOrCreate(sum.living(ttl(time = TimeDomain.EVENT_TIME)))
      for (time <- Seq(520L, 500L, 540L)) {
        clock.recordTimestamp = time
        l.add(time.toString)
        m.put(time.toString, time)
        s.add(1L)
      }
      clock.watermark = 600L
      assert(l.get().toSeq == Seq("520", "540"))
      assert(m.keys.toSet == Set("520", "540"))
      clock.watermark = 639L
      assert(l.get().toSeq == Seq("540") && m.keys.toSet == Set("540") && s.get() == 3L)
      clock.watermark = 640L
      assert(l.get().isEmpty && m.isEmpty && (s: ReducingState[_]).get() == null)
    }
  }

  test("what is written before any event time is known begins its life when time is first known") {
    run { (backend, clock) =>
      val v = backend.getOrCreate(value.living(ttl(time = TimeDomain.EVENT_TIME)))
      val l = backend.getOrCreate(list.living(ttl(time = TimeDomain.EVENT_TIME)))
      val m = backend.getOrCreate(map.living(ttl(time = TimeDomain.EVENT_TIME)))
      v.update("1")
      l.add("1")
      m.put("1", 1L)
      assert(v.value() == "1" && l.get().size == 1 && !m.isEmpty)
      clock.watermark = 5000L
      assert(v.value() == "1" && l.get().size == 1 && m.get("1") == 1L)
      clock.watermark = 5099L
      assert(v.value() == "1" && l.get().size == 1 && !m.isEmpty)
      clock.watermark = 5100L
      assert(v.value() == null && l.get().isEmpty && m.isEmpty)
    }
  }

  test("what is written before any event time is known lives from the first watermark, whenever it is met") {
    for (update <- Seq(Update.ON_CREATE_AND_WRITE, Update.ON_READ_AND_WRITE)) run { (backend, clock) =>
      val life = ttl(update, time = TimeDomain.EVENT_TIME)
      val v = backend.getOrCreate(value.living(life))
      val l = backend.getOrCreate(list.living(life))
      val m = backend.getOrCreate(map.living(life))
      def write(): Unit = {
        v.update("1")
        l.add("1")
        m.put("1", 1L)
      }
      val (rawV, rawL, rawM, _) = raw(backend, life)
      def timestamps = (stampsOf(rawV) ++ rawL.timestamps ++ stampsOf(rawM).values).toSet
      Seq("a", "b", "c").foreach { key =>
        backend.setCurrentKey(key)
        write()
      }
      assert(timestamps == Set(StateClock.Unknown))
      backend.noteWatermark(5000L)
      backend.noteWatermark(5050L)
      clock.watermark = 5099L
      backend.setCurrentKey("a")
      assert(v.value() == "1" && l.get().size == 1 && !m.isEmpty && m.get("1") == 1L)
      backend.setCurrentKey("c")
      clock.recordTimestamp = 4000L
      v.update("2")
      m.put("1", 2L)
      assert(stampsOf(rawV).contains(5000L), "a late row takes no time away")
      clock.watermark = 5100L
      backend.setCurrentKey("b")
      assert(v.value() == null && l.get().isEmpty && m.isEmpty && !m.contains("1"))
      backend.setCurrentKey("c")
      assert(v.value() == null && m.entries.isEmpty)
      backend.setCurrentKey("a")
      assert((v.value() == null) == (update == Update.ON_CREATE_AND_WRITE))
    }
  }

  test("the listener is told of each expired value once, with its key, and can't use keyed state") {
    run { (backend, clock) =>
      val told = mutable.ArrayBuffer.empty[(Any, Any, Any)]
      var state: ValueState[String] = null
      val listener: ExpiryListener = (key, userKey, v) => {
        told += ((key, userKey, v))
        assertThrows[StateAccessException](state.value())
      }
      state = backend.getOrCreate(value.living(ttl(), onExpire = Some(listener)))
      val l = backend.getOrCreate(list.living(ttl(), onExpire = Some(listener)))
      val m = backend.getOrCreate(map.living(ttl(), onExpire = Some(listener)))
      val s = backend.getOrCreate(sum.living(ttl(), onExpire = Some(listener)))
      state.update("v")
      l.addAll(Seq("l1", "l2"))
      m.put("x", 7L)
      s.add(5L)
      clock.processingTime = 1100L
      for (_ <- 1 to 2) {
        assert(
          state.value() == null && l.get().isEmpty && m.isEmpty && m.get("x").asInstanceOf[AnyRef] == null
        )
        s.get(): Unit
      }
      assert(
        told.toSeq == Seq(
          ("a", null, "v"),
          ("a", null, "l1"),
          ("a", null, "l2"),
          ("a", "x", 7L),
          ("a", null, 5L)
        )
      )
      assert(backend.currentKey == "a")
    }
  }

  test("a restart with another ttl judges by the old timestamps and the new ttl") {
    for ((millis, alive) <- Seq(300L -> true, 50L -> false)) {
      val clock = new ManualClock(1000L)
      withBackend(clock) { first =>
        Seq(value.living(ttl())).foreach { d =>
          first.setCurrentKey("a")
          first.getOrCreate(d).update("1")
        }
        clock.processingTime = 1060L
        withBackend(clock) { second =>
          restored(second, snapshotOf(first))
          val state = second.getOrCreate(value.living(ttl(millis = millis)))
          second.setCurrentKey("a")
          assert((state.value() == "1") == alive)
          clock.processingTime = 1299L
          assert((state.value() == "1") == alive)
        }
      }
    }
  }

  /** Writes under one TTL, restarts at 1090 under another, and hands out the handles. */
  private def switched(from: Option[StateTtl], to: Option[StateTtl])(
      test: (
          ManualClock,
          KeyedStateBackend[String],
          ValueState[String],
          ListState[String],
          MapState[String, Long]
      ) => Unit
  ): Unit = {
    val clock = new ManualClock(1000L)
    withBackend(clock) { first =>
      first.setCurrentKey("a")
      first.getOrCreate(value.living(from)).update("1")
      first.getOrCreate(list.living(from)).addAll(Seq("1", "2"))
      first.getOrCreate(map.living(from)).put("x", 1L)
      val log = first.commit()
      clock.processingTime = 1090L
      withBackend(clock) { second =>
        restored(second, bytesOf(log))
        val handles = (
          second.getOrCreate(value.living(to)),
          second.getOrCreate(list.living(to)),
          second.getOrCreate(map.living(to))
        )
        second.setCurrentKey("a")
        test(clock, second, handles._1, handles._2, handles._3)
      }
    }
  }

  test(
    "TTL switched on at a restart starts the life of old values there, and a later restart doesn't start it again"
  ) {
    switched(None, ttl()) { (clock, second, v, l, m) =>
      val log = second.commit()
      assert(log.entries == 4, "the new timestamps are part of the next commit")
      clock.processingTime = 1189L
      assert(v.value() == "1" && l.get().size == 2 && m.get("x") == 1L)
      clock.processingTime = 1190L
      assert(v.value() == null && l.get().isEmpty && m.isEmpty)
    }
  }

  test("TTL switched off at a restart keeps every value, expired or not") {
    switched(ttl(), None) { (clock, _, v, l, m) =>
      clock.processingTime = 9000L
      assert(v.value() == "1" && l.get().size == 2 && m.get("x") == 1L)
    }
  }

  test("TTL moved to another clock at a restart starts lives anew") {
    switched(ttl(), ttl(time = TimeDomain.EVENT_TIME)) { (clock, _, v, l, m) =>
      clock.watermark = 50L
      assert(v.value() == "1" && l.get().size == 2 && m.get("x") == 1L)
      clock.watermark = 150L
      assert(v.value() == null && l.get().isEmpty && m.isEmpty)
    }
  }

  test("TTL of one type clashes with none of it, and a ttl must be positive") {
    assertThrows[IllegalArgumentException](TestState.ttl(0L))
    assertThrows[IllegalArgumentException](StateTtl.of(java.time.Duration.ofNanos(5)))
    withBackend() { backend =>
      backend.getOrCreate(TestState.value("n", ScalaSerializers.long, ttl()))
      assertThrows[StateRegistrationException](
        backend.getOrCreate(TestState.value("n", ScalaSerializers.long))
      )
    }
  }
}
