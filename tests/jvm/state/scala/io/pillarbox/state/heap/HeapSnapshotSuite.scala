package io.pillarbox.state.heap

import scala.util.Random

import io.pillarbox.api.ScalaSerializers
import io.pillarbox.state._
import org.scalatest.funsuite.AnyFunSuite

/** Full snapshots that are larger than a block. */
class HeapSnapshotSuite extends AnyFunSuite with HeapFixture {
  private val keys = new Random(5).shuffle((0L until 60000L).toVector)

  test("a large snapshot is restored as it was") {
    val snapshot = withFilled(snapshotOf(_))
    val backend = restored(openBackend(ScalaSerializers.long, new ManualClock), snapshot)
    try {
      val state = backend.getOrCreate(value)
      keys.foreach { key =>
        backend.setCurrentKey(key)
        assert(state.value() == s"value $key")
      }
      assert(backend.numEntries("value") == keys.size)
    } finally backend.close()
  }

  test("a value larger than a whole block is in a snapshot, and so are those after it") {
    val large = "x" * (3 << 20)
    val snapshot = withBackend() { backend =>
      val state = backend.getOrCreate(value)
      Seq("a" -> "before", "b" -> large, "c" -> "after").foreach { case (key, text) =>
        backend.setCurrentKey(key)
        state.update(text)
      }
      snapshotOf(backend)
    }
    withBackend() { backend =>
      val state = restored(backend, snapshot).getOrCreate(value)
      Seq("a" -> "before", "b" -> large, "c" -> "after").foreach { case (key, text) =>
        backend.setCurrentKey(key)
        assert(state.value() == text)
      }
    }
  }

  private def withFilled[A](action: KeyedStateBackend[Long] => A): A = {
    val backend = openBackend(ScalaSerializers.long, new ManualClock)
    try {
      val state = backend.getOrCreate(value)
      keys.foreach { key =>
        backend.setCurrentKey(key)
        state.update(s"value $key")
      }
      action(backend)
    } finally backend.close()
  }
}
