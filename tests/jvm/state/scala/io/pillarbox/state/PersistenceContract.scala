package io.pillarbox.state

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, IOException, OutputStream}

import io.pillarbox.api.{MapState, ScalaSerializers, Serializers, State, StateDescriptor}
import io.pillarbox.api.{ProductSerializer, TestSerializers}
import io.pillarbox.state.ScalaHandles._
import org.scalatest.funsuite.AnyFunSuite

/** What commits, snapshots and their restoration must do on every backend. */
abstract class PersistenceContract extends AnyFunSuite with StateFixture {

  private def fill(backend: KeyedStateBackend[String], keys: Range): Unit = {
    val (v, l, m) = (backend.getOrCreate(value), backend.getOrCreate(list), backend.getOrCreate(map))
    for (i <- keys) {
      backend.setCurrentKey(s"k$i")
      v.update(s"v$i")
      l.addAll(Seq("1", "2"))
      m.put("x", i.toLong)
    }
  }

  test("a commit has exactly the entries that changed since the one before") {
    withBackend() { backend =>
      fill(backend, 0 until 100)
      assert(backend.commit().entries == 400)
      assert(backend.commit().isEmpty)
      val (v, l, m) = (backend.getOrCreate(value), backend.getOrCreate(list), backend.getOrCreate(map))
      backend.setCurrentKey("k7")
      for (i <- 1 to 5) v.update(s"again $i")
      l.add("3")
      m.put("y", 1L)
      m.put("y", 2L)
      m.remove("x")
      backend.setCurrentKey("k8")
      v.clear()
      assert(backend.commit().entries == 5)
    }
  }

  test("what was added and removed between two commits leaves no trace in the restored state") {
    withBackend() { backend =>
      val (v, l, m) = (backend.getOrCreate(value), backend.getOrCreate(list), backend.getOrCreate(map))
      backend.setCurrentKey("a")
      v.update("1")
      v.clear()
      l.add("1")
      l.clear()
      m.put("x", 1L)
      m.clear()
      val log = bytesOf(backend.commit())
      withBackend() { second =>
        restored(second, log)
        Seq(value, list, map).foreach(d => second.getOrCreate(d.asInstanceOf[StateDescriptor[State]]))
        Seq("value", "list", "map").foreach(name => assert(second.numEntries(name) == 0, name))
      }
    }
  }

  test("an entry removed, committed and added again is there after a restart") {
    withBackend() { backend =>
      fill(backend, 0 until 3)
      val first = bytesOf(backend.commit())
      val (v, m) = (backend.getOrCreate(value), backend.getOrCreate(map))
      backend.setCurrentKey("k1")
      v.clear()
      m.remove("x")
      val second = bytesOf(backend.commit())
      backend.setCurrentKey("k1")
      v.update("new")
      m.put("x", 77L)
      val third = bytesOf(backend.commit())
      for (
        (logs, text, number) <- Seq((Seq(first, second), null, null), (Seq(first, second, third), "new", 77L))
      )
        withBackend() { again =>
          restored(again, logs: _*)
          val (v2, m2) = (again.getOrCreate(value), again.getOrCreate(map))
          again.setCurrentKey("k1")
          assert(v2.value() == text)
          assert((m2: MapState[String, _]).get("x") == number)
        }
    }
  }

  test("the first watermark is part of commits and snapshots, and of several the latest counts") {
    withBackend() { backend =>
      fill(backend, 0 until 3)
      val before = bytesOf(backend.commit())
      backend.noteWatermark(500L)
      val empty = bytesOf(backend.commit())
      val snapshot = snapshotOf(backend)
      withBackend() { second =>
        assert(restored(second, before).firstWatermark == StateClock.Unknown)
        second.noteWatermark(700L)
        val other = snapshotOf(second)
        for (streams <- Seq(Seq(before, empty), Seq(snapshot)))
          withBackend()(again => assert(restored(again, streams: _*).firstWatermark == 500L))
        withBackend()(both => assert(restored(both, snapshot, other).firstWatermark == 700L))
      }
    }
  }

  test("a commit whose stream fails changes nothing: the next one has it all") {
    withBackend() { backend =>
      fill(backend, 0 until 10)
      val full = new OutputStream {
        override def write(b: Int): Unit = throw new IOException("no space left on device")
      }
      assertThrows[IOException](backend.commit(full))
      assert(backend.version == 0)
      assert(backend.commit().entries == 40)
      assert(backend.version == 1)
    }
  }

  test("logs must be read in order, none left out") {
    withBackend() { backend =>
      val logs = (0 until 3).map { i =>
        fill(backend, i until i + 1)
        bytesOf(backend.commit())
      }
      withBackend() { second =>
        restored(second, logs(0))
        val error = intercept[StateRestoreException](
          second.restore(new ByteArrayInputStream(logs(2)), "/checkpoints/3.delta")
        )
        assert(
          error.condition == "STATE_LOG_OUT_OF_ORDER" && error.getMessage.contains("/checkpoints/3.delta")
        )
      }
    }
  }

  /** What a key has in each state. */
  private def told(backend: KeyedStateBackend[String], key: String): Seq[Any] = {
    val (v, l, m) = (backend.getOrCreate(value), backend.getOrCreate(list), backend.getOrCreate(map))
    backend.setCurrentKey(key)
    Seq(v.value(), l.get().toSeq, (m: MapState[String, _]).get("x"))
  }

  test("logs of several partitions are read one after the other, and entries of some keys left out") {
    val mine = (key: String) => key.drop(1).toInt % 3 == 1
    val parts = Seq(0 until 40 by 2, 1 until 40 by 2).map { own =>
      withBackend() { backend =>
        Seq(own, own.take(7), own.drop(15)).map { some =>
          fill(backend, some)
          backend.setCurrentKey(s"k${some.head}")
          backend.getOrCreate(value).clear()
          bytesOf(backend.commit())
        }
      }
    }
    withBackend() { whole =>
      withBackend() { third =>
        for (backend <- Seq(whole, third); logs <- parts) {
          backend.restoresOther()
          val keeps = if (backend eq third) mine else null
          logs.foreach(log => backend.restore(new ByteArrayInputStream(log), "a log", keeps))
        }
        assert(whole.version == 3 && third.version == 3)
        fill(whole, 1 to 1)
        fill(third, 1 to 1)
        for (key <- (0 until 40).map(i => s"k$i"))
          assert(told(third, key) == (if (mine(key)) told(whole, key) else Seq[Any](null, Nil, null)), key)
        assert(told(whole, "k1") == Seq[Any]("v1", Seq("1", "2", "1", "2", "1", "2"), 1L))
        assert(whole.numEntries("value") == 37)
      }
    }
  }

  test("state that a run doesn't register is kept for the next one") {
    withBackend() { first =>
      fill(first, 0 until 20)
      val log = bytesOf(first.commit())
      withBackend() { second =>
        restored(second, log)
        val v = second.getOrCreate(value)
        second.setCurrentKey("k3")
        v.update("changed")
        second.commit()
        withBackend() { third =>
          restored(third, snapshotOf(second))
          val (v3, l3, m3) = (third.getOrCreate(value), third.getOrCreate(list), third.getOrCreate(map))
          third.setCurrentKey("k3")
          assert(v3.value() == "changed" && l3.get().toSeq == Seq("1", "2") && m3.get("x") == 3L)
        }
      }
    }
  }

  test("a list goes on behind the elements that were restored") {
    withBackend() { first =>
      fill(first, 0 until 2)
      withBackend() { second =>
        restored(second, snapshotOf(first))
        val l = second.getOrCreate(list)
        second.setCurrentKey("k0")
        l.add("3")
        val log = bytesOf(second.commit())
        withBackend() { third =>
          restored(third, bytesOf(first.commit()))
          assert(third.version == 1)
        }
        assert(l.get().toSeq == Seq("1", "2", "3") && log.nonEmpty)
      }
    }
  }

  test("a widened type and added nullable fields are read, and written anew by the next commit") {
    final case class Wide(n: java.lang.Long, text: String, extra: String)
    val narrow = TestState.value("record", TestSerializers.tuple2(ScalaSerializers.int, Serializers.ofString))
    val wide = TestState.value(
      "record",
      new ProductSerializer[Wide](
        Seq(ScalaSerializers.long, Serializers.ofString, Serializers.ofString),
        f => Wide(f(0).asInstanceOf[java.lang.Long], f(1).asInstanceOf[String], f(2).asInstanceOf[String])
      )
    )
    withBackend() { first =>
      first.setCurrentKey("a")
      first.getOrCreate(narrow).update((7, "seven"))
      first.setCurrentKey("b")
      first.getOrCreate(narrow).update((8, null))
      val log = bytesOf(first.commit())
      withBackend() { second =>
        restored(second, log)
        val state = second.getOrCreate(wide)
        second.setCurrentKey("a")
        assert(state.value() == Wide(7L, "seven", null))
        val rewritten = second.commit()
        assert(rewritten.entries == 2)
        withBackend() { third =>
          restored(third, log, bytesOf(rewritten))
          val again = third.getOrCreate(wide)
          third.setCurrentKey("b")
          assert(again.value() == Wide(8L, null, null))
        }
      }
    }
  }

  test("an incompatible type is refused before any data is touched") {
    withBackend() { first =>
      fill(first, 0 until 5)
      withBackend() { second =>
        restored(second, snapshotOf(first))
        val wrong = TestState.value("value", ScalaSerializers.long)
        val error = intercept[StateRegistrationException](second.getOrCreate(wrong))
        assert(error.condition == "STATE_SCHEMA_INCOMPATIBLE" && error.getMessage.contains("string"))
        assertThrows[StateRegistrationException](
          second.getOrCreate(TestState.list("map", Serializers.ofString))
        )
        assertThrows[StateRegistrationException](
          second.getOrCreate(TestState.map("map", ScalaSerializers.long, ScalaSerializers.long))
        )
        val (v, m) = (second.getOrCreate(value), second.getOrCreate(map))
        second.setCurrentKey("k2")
        assert(v.value() == "v2" && m.get("x") == 2L)
      }
    }
  }

  test(
    "another type of map keys is refused, even a wider one: entries are found by the bytes of their keys"
  ) {
    withBackend() { backend =>
      val narrow = backend.getOrCreate(TestState.map("map", ScalaSerializers.int, Serializers.ofString))
      backend.setCurrentKey("a")
      narrow.put(7, "seven")
      val log = bytesOf(backend.commit())
      withBackend() { second =>
        restored(second, log)
        val error = intercept[StateRegistrationException] {
          second.getOrCreate(TestState.map("map", ScalaSerializers.long, Serializers.ofString))
        }
        assert(error.condition == "STATE_SCHEMA_INCOMPATIBLE")
        Seq("'map'", "map key type", "int", "long").foreach(part => assert(error.getMessage.contains(part)))
        val again = second.getOrCreate(TestState.map("map", ScalaSerializers.int, Serializers.ofString))
        second.setCurrentKey("a")
        assert(again.get(7) == "seven", "nothing was touched")
      }
    }
  }

  test("state of other keys is refused") {
    withBackend() { first =>
      fill(first, 0 until 2)
      val other = openBackend(ScalaSerializers.long, new ManualClock)
      try {
        val error = intercept[StateRestoreException](
          other.restore(new ByteArrayInputStream(snapshotOf(first)), "/checkpoints/1.snapshot")
        )
        assert(
          error.condition == "STATE_FILE_MISMATCH" && error.getMessage.contains("/checkpoints/1.snapshot")
        )
      } finally other.close()
    }
  }

  test("restoring after a state was registered is an error") {
    withBackend() { backend =>
      backend.getOrCreate(value)
      assertThrows[IllegalStateException](restored(backend, Array.emptyByteArray))
    }
  }

  test("every single damaged byte of a file is found, and the error names the file") {
    withBackend() { first =>
      fill(first, 0 until 4)
      val sound = bytesOf(first.commit())
      for (position <- sound.indices by 3) withFile(sound.updated(position, (sound(position) ^ 0x10).toByte))
      for (length <- 0 until sound.length by 5) withFile(sound.take(length))
      withFile(sound :+ 0.toByte)
    }

    def withFile(damaged: Array[Byte]): Unit = {
      val backend = fresh()
      try {
        val error = intercept[StateRestoreException](
          backend.restore(new ByteArrayInputStream(damaged), "/checkpoints/1.delta")
        )
        assert(Set("STATE_FILE_CORRUPT", "STATE_FORMAT_UNKNOWN")(error.condition))
        assert(error.getMessage.contains("/checkpoints/1.delta"))
      } finally backend.close()
    }
  }

  /** Backends are expensive to open for every byte of a file: a suite may use its cheapest. */
  protected def fresh(): KeyedStateBackend[String] = openBackend(Serializers.ofString, new ManualClock)

  test("a file of another format is refused as such") {
    withBackend() { first =>
      fill(first, 0 until 1)
      val sound = snapshotOf(first)
      for (format <- Seq(9, 1)) withBackend() { second =>
        val other = sound.updated(11, format.toByte)
        val error = intercept[StateRestoreException](
          second.restore(new ByteArrayInputStream(other), "/checkpoints/1.snapshot")
        )
        assert(error.condition == "STATE_FORMAT_UNKNOWN")
        assert(error.getMessage.contains(s"/checkpoints/1.snapshot has format version $format"))
      }
    }
  }

  test("a snapshot can be taken while changes wait for a commit, and has them") {
    withBackend() { first =>
      fill(first, 0 until 50)
      val out = new ByteArrayOutputStream
      assert(first.snapshot(out).entries == 200)
      assert(first.commit().entries == 200)
    }
  }
}
