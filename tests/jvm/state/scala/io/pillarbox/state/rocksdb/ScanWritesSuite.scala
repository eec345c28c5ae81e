package io.pillarbox.state.rocksdb

import io.pillarbox.api.Serializers
import io.pillarbox.state.ScalaHandles._
import org.scalatest.funsuite.AnyFunSuite

/** Which of the writes that wait the database gets, and when. */
class ScanWritesSuite extends AnyFunSuite with RocksDBFixture {
  private val keys = (0 until 500).map(i => s"key $i")

  /** How many writes the database has got. */
  private def written(backend: RocksDBKeyedStateBackend[_]): Long =
    backend.store.property("rocksdb.num-entries-active-mem-table")

  /** A value and an entry of a map for each key. */
  private def filled(test: RocksDBKeyedStateBackend[String] => Unit): Unit = {
    val backend = openAt(newDirectory(), Serializers.ofString)
    try {
      val (v, m) = (backend.getOrCreate(value), backend.getOrCreate(map))
      keys.foreach { key =>
        backend.setCurrentKey(key)
        v.update(key)
        m.put("p", 1L)
      }
      test(backend)
    } finally backend.close()
  }

  test("an iteration over a map writes what waits near its key, once, and nothing of other states") {
    filled { backend =>
      val m = backend.getOrCreate(map)
      assert(written(backend) == 0)
      def readOne(): Long = {
        backend.setCurrentKey(keys(7))
        assert(m.entries.map(e => e.getKey -> e.getValue).toSeq == Seq("p" -> 1L) && !m.isEmpty)
        written(backend)
      }
      val first = readOne()
      assert(first >= 1 && first < keys.size / 10)
      assert(readOne() == first)
      keys.filter(_ != keys(7)).foreach { key =>
        backend.setCurrentKey(key)
        m.put("q", 2L)
      }
      assert(readOne() - first < keys.size / 10, "other keys' writes wait on")
      backend.setCurrentKey(keys(8))
      assert(m.keys.toSeq == Seq("p", "q"))
    }
  }

  test("a checkpoint writes all that waits, and a commit still has it") {
    filled { backend =>
      backend.checkpoint(newDirectory().resolve("checkpoint"))
      assert(backend.numEntries("map") == keys.size && backend.numEntries("value") == keys.size)
      assert(written(backend) == 0, "nothing was left to write")
      assert(bytesOf(backend.commit()).length > 2 * keys.size)
    }
  }

  test("a property of the database is summed over column families, also over those that agree in it") {
    filled { backend =>
      assert(backend.numEntries("map") == keys.size && backend.numEntries("value") == keys.size)
      assert(written(backend) == 2 * keys.size)
    }
  }

  test("what an iteration has written is still told by the next commit, and by no other") {
    filled { backend =>
      val m = backend.getOrCreate(map)
      keys.foreach { key =>
        backend.setCurrentKey(key)
        assert(m.values.toSeq == Seq(1L))
      }
      val copy = restored(openAt(newDirectory(), Serializers.ofString), bytesOf(backend.commit()))
      try {
        val (v, m) = (copy.getOrCreate(value), copy.getOrCreate(map))
        keys.foreach { key =>
          copy.setCurrentKey(key)
          assert(v.value() == key && m.get("p") == 1L)
        }
      } finally copy.close()
      assert(backend.commit().isEmpty)
    }
  }
}
