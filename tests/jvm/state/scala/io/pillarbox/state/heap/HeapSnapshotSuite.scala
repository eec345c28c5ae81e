package io.pillarbox.state.heap

import java.io.ByteArrayInputStream

import scala.util.Random

import io.pillarbox.api.ScalaSerializers
import io.pillarbox.state._
import io.pillarbox.state.changelog.{CompositeKey, RecordBlock, StateStreamReader}
import org.scalatest.funsuite.AnyFunSuite

/** Full snapshots that are larger than what the writer gathers before it writes. */
class HeapSnapshotSuite extends AnyFunSuite with HeapFixture {
  private val keys = new Random(5).shuffle((0L until 60000L).toVector)

  test("each block of a large snapshot holds few key groups, and only those it says") {
    val blocks = withFilled(backend => blocksOf(snapshotOf(backend)))
    assert(blocks.map(_.count).sum == keys.size)
    assert(blocks.size > 16)
    blocks.foreach { block =>
      val groups = groupsOf(block)
      assert(groups.min >= block.lowest && groups.max <= block.highest)
      assert(block.highest - block.lowest < 32)
    }
  }

  test("a large snapshot is restored as it was, in parts too") {
    val snapshot = withFilled(snapshotOf(_))
    for (range <- Seq(KeyGroupRange(0, 127), KeyGroupRange(0, 20), KeyGroupRange(21, 127))) {
      val backend = openBackend(ScalaSerializers.long, new ManualClock, range)
      try {
        restored(backend, snapshot)
        val state = backend.getOrCreate(value)
        val own = keys.filter(key => range.contains(groupOf(key)))
        own.foreach { key =>
          backend.setCurrentKey(key)
          assert(state.value() == s"value $key")
        }
        assert(backend.numEntries("value") == own.size)
      } finally backend.close()
    }
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

  private def blocksOf(snapshot: Array[Byte]): Vector[RecordBlock] =
    new StateStreamReader(new ByteArrayInputStream(snapshot), "snapshot").open(_ => ()).toVector

  private def groupsOf(block: RecordBlock): Seq[Int] = {
    val cursor = block.cursor
    Iterator
      .continually(cursor.next())
      .takeWhile(identity)
      .map(_ => CompositeKey.keyGroup(cursor.array, cursor.keyOffset))
      .toVector
  }

  private def groupOf(key: Long): Int = KeyGroups.keyGroupOf(java.lang.Long.hashCode(key), 128)
}
