package io.pillarbox.state

import java.io.ByteArrayInputStream

import io.pillarbox.api.StateTtl._
import io.pillarbox.api.{State, StateDescriptor, TimeDomain}
import io.pillarbox.state.ScalaHandles._
import io.pillarbox.state.changelog.{StateEntries, StoredEntry}
import io.pillarbox.state.heap.HeapFixture
import io.pillarbox.state.rocksdb.RocksDBFixture
import org.scalatest.funsuite.AnyFunSuite

/** What a snapshot tells without the program that wrote it, the same for every backend. */
abstract class StateEntriesContract extends AnyFunSuite with StateFixture {
  private val ttl = Some(
    TestState.ttl(1000L, Update.ON_READ_AND_WRITE, timeDomain = TimeDomain.PROCESSING_TIME)
  )
  private val lasting = list.living(ttl)
  private val renewed = map.living(ttl)

  private def entries[A](bytes: Array[Byte], state: String)(show: StoredEntry => A): Seq[A] =
    StateEntries.of(new ByteArrayInputStream(bytes), "snapshot", state).map(show).toList

  test("states are named with their kinds, types and TTL") {
    withBackend() { backend =>
      Seq(value, lasting, renewed, mean).foreach(d =>
        backend.getOrCreate(d.asInstanceOf[StateDescriptor[State]])
      )
      val found = StateEntries.states(new ByteArrayInputStream(snapshotOf(backend)), "snapshot")
      assert(
        found.map(s => (s.name, s.kind, s.value.id, s.userKey.map(_.id), s.ttl)).toSet == Set(
          ("value", StateDescriptor.Kind.VALUE, "string", None, 0L),
          ("list", StateDescriptor.Kind.LIST, "string", None, 1000L),
          ("map", StateDescriptor.Kind.MAP, "long", Some("string"), 1000L),
          ("mean", StateDescriptor.Kind.AGGREGATING, "product", None, 0L)
        )
      )
    }
  }

  test("entries come with their keys, in a list's order, and with the time they were written or read last") {
    val clock = new ManualClock
    withBackend(clock) { backend =>
      val (l, m) = (backend.getOrCreate(lasting), backend.getOrCreate(renewed))
      clock.processingTime = 10
      backend.setCurrentKey("a")
      l.addAll(Seq("x", "y"))
      m.put("old", 1L)
      m.put("read", 2L)
      backend.setCurrentKey("b")
      l.add("z")
      clock.processingTime = 500
      backend.setCurrentKey("a")
      assert(l.get().toSeq == Seq("x", "y"))
      assert(m.get("read") == 2L)
      clock.processingTime = 600
      l.add("w")
      val bytes = snapshotOf(backend)
      val elements =
        entries(bytes, "list")(e => (e.key.readUtf8(), e.value.readUtf8(), e.timestamp)).groupBy(_._1)
      assert(elements("a") == Seq(("a", "x", 500L), ("a", "y", 500L), ("a", "w", 600L)))
      assert(elements("b") == Seq(("b", "z", 10L)))
      val named = entries(bytes, "map")(e => (e.userKey.readUtf8(), e.value.readLong(), e.timestamp))
      assert(named.toSet == Set(("old", 1L, 10L), ("read", 2L, 500L)))
      assert(entries(bytes, "other")(identity).isEmpty)
    }
  }

  test("a restored state that no program has claimed is told the same, and named") {
    withBackend() { backend =>
      val v = backend.getOrCreate(value)
      backend.setCurrentKey("k")
      v.update("1")
      val log = bytesOf(backend.commit())
      withBackend() { second =>
        restored(second, log)
        assert(second.unclaimedStates == Seq("value"))
        assert(entries(snapshotOf(second), "value")(_.value.readUtf8()) == Seq("1"))
        second.getOrCreate(value)
        assert(second.unclaimedStates.isEmpty)
      }
    }
  }

  test("a damaged snapshot is an error that names it, from the iterator") {
    withBackend() { backend =>
      val v = backend.getOrCreate(value)
      backend.setCurrentKey("k")
      v.update("1")
      val cut = snapshotOf(backend).dropRight(3)
      val error = intercept[StateRestoreException](entries(cut, "value")(identity))
      assert(error.getMessage.contains("[STATE_FILE_CORRUPT] snapshot is damaged"))
    }
  }
}

class HeapStateEntriesSuite extends StateEntriesContract with HeapFixture

class RocksDBStateEntriesSuite extends StateEntriesContract with RocksDBFixture
