package io.pillarbox.spark.inspect

import java.io.{IOException, InputStream}
import java.nio.file.Files

import io.pillarbox.api.TimeDomain
import io.pillarbox.spark.LocalSpark
import io.pillarbox.spark.state.{CheckpointPartition, StateBackends}
import io.pillarbox.state.Namespace
import org.apache.spark.sql.pillarbox.LocalFolders
import org.apache.spark.sql.types.StructType
import org.scalatest.funsuite.AnyFunSuite

/** The rows of a partition's stored state. */
class StoredLayoutSuite extends AnyFunSuite with LocalSpark {
  // Local folders are Spark's.
  assert(spark != null)

  private val keys = StructType.fromDDL("x bigint")

  test("a timer that Python has no datetime for has its time in milliseconds alone") {
    val scratch = LocalFolders.create("read-state")
    val state = StateBackends.forReading(keys, 16L << 20)
    try {
      val times = Seq(Long.MinValue, -62135596800000L, -1000L, 253402214399999L, 253402300800000L, 1L << 62)
      state.backend.setCurrentKey(CheckpointPartition.row(1L))
      times.foreach(state.timers.register(TimeDomain.EVENT_TIME, Namespace.Void, _))
      val rows = new TimerLayout(keys).rows(state, 3, scratch.path.resolve("entries"), _ => ())
      val found = rows.map(row => row.getLong(3) -> Option.unless(row.isNullAt(2))(row.getLong(2))).toMap
      val shown = Map(-1000L -> -1000000L, 253402214399999L -> 253402214399999000L)
      assert(found == times.map(time => time -> shown.get(time)).toMap)
    } finally {
      state.close()
      scratch.close()
    }
  }

  test("timers wait on the disk until they are asked for, and the file is closed after the last") {
    val scratch = LocalFolders.create("read-state")
    val state = StateBackends.forReading(keys, 16L << 20)
    try {
      (1L to 10000L).foreach { key =>
        state.backend.setCurrentKey(CheckpointPartition.row(key))
        state.timers.register(TimeDomain.EVENT_TIME, Namespace.Void, key)
      }
      val file = scratch.path.resolve("entries")
      var opened = Seq.empty[AutoCloseable]
      val rows = new TimerLayout(keys).rows(state, 3, file, opened :+= _)
      assert(Files.size(file) > 10000 * 8 * 5)
      val found = rows.map { row =>
        (row.getStruct(0, 1).getLong(0), row.getString(1), row.getLong(2), row.getLong(3), row.getInt(4))
      }
      val expected = (1L to 10000L).map(key => (key, "event_time", key * 1000, key, 3))
      assert(found.toSeq.sorted == expected)
      assert(opened.size == 1)
      assertThrows[IOException](opened.head.asInstanceOf[InputStream].read())
    } finally {
      state.close()
      scratch.close()
    }
  }
}
