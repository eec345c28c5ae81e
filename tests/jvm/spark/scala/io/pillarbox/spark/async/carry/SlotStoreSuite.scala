package io.pillarbox.spark.async.carry

import java.io.DataOutputStream
import java.nio.file.{Files, Path => LocalPath}

import scala.jdk.CollectionConverters._

import io.pillarbox.async.queue.StreamElement
import io.pillarbox.spark.checkpoint.{Attempt, StateFolder, StateVersion}
import io.pillarbox.state.StateException
import io.pillarbox.testing.FewAndMany
import org.apache.commons.io.FileUtils
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

class SlotStoreSuite extends AnyFunSuite with FewAndMany {
  private val input = new StructType().add("id", LongType).add("name", StringType)
  private val answer = new StructType().add("x", IntegerType)
  private val output = StructType(input ++ answer)

  private def unsafe(schema: StructType, values: Any*): UnsafeRow =
    UnsafeProjection.create(schema)(InternalRow(values: _*)).copy()

  private def carried(id: Long, hold: Long = Long.MaxValue): CarriedRow =
    new CarriedRow(unsafe(input, id, UTF8String.fromString(s"row $id")), hold)

  private def withStore(body: (SlotStore, LocalPath) => Unit): Unit = {
    val folder = Files.createTempDirectory("slots")
    val format = new SlotStateFormat(input.length, answer.length, UnsafeProjection.create(answer))
    try
      body(new SlotStore(new StateFolder(new Path(folder.toUri), new Configuration), format), folder)
    finally FileUtils.deleteDirectory(folder.toFile)
  }

  private def write(store: SlotStore, id: String, runId: String, ids: Long*): Unit =
    store.write(StateVersion(1, Some(id)), StateVersion.Empty) { out =>
      val file = new DataOutputStream(out)
      ids.foreach(i => SlotStateFormat.writeRow(file, unsafe(output, i, UTF8String.fromString("r"), i.toInt)))
      SlotStateFormat.writeEnd(file)
      file.flush()
      val elements = Seq[StreamElement[InternalRow, InternalRow]](
        StreamElement.Record(7, carried(7, 70), 700),
        StreamElement.Answered(
          8,
          carried(8),
          800,
          java.util.List.of[InternalRow](InternalRow(9), InternalRow(null))
        )
      )
      SlotState(runId, elements.asJava, 9, ids.size.toLong, 50)
    }

  private def shown(state: SlotState): Seq[String] = state.elements.asScala.toSeq.map {
    case StreamElement.Record(id, row: CarriedRow, at) => s"$id ${row.getString(1)} ${row.holdMicros} $at"
    case StreamElement.Answered(id, row: CarriedRow, at, results) =>
      val answers = results.asScala.map(r => if (r.isNullAt(0)) "null" else r.getInt(0).toString)
      s"$id ${row.getString(1)} $at ${answers.mkString("+")}"
    case other => other.toString
  }

  test("a version is read as it was written") {
    withStore { (store, _) =>
      write(store, "a", "run", 1, 2, 3)
      val version = StateVersion(1, Some("a"))
      val results = store.results(version)
      assert(results.map(_.getLong(0)).toSeq == Seq(1, 2, 3))
      val state = store.state(version)
      assert(shown(state) == Seq("7 row 7 70 700", "8 row 8 800 9+null"))
      assert(state.nextElementId == 9 && state.report == SlotReport(3, 2, 1, 50))
    }
  }

  test("what was taken in by a clock that was ahead counts as taken in now") {
    withStore { (store, _) =>
      write(store, "a", "run", 1)
      val state = store.state(StateVersion(1, Some("a")))
      assert(shown(state.notAfter(750)) == Seq("7 row 7 70 700", "8 row 8 750 9+null"))
      assert(shown(state.notAfter(10)) == Seq("7 row 7 70 10", "8 row 8 10 9+null"))
      assert(state.notAfter(800) == state)
    }
  }

  test("before the first version there is nothing") {
    withStore { (store, _) =>
      assert(store.results(StateVersion.Empty).isEmpty && store.state(StateVersion.Empty) == SlotState.Empty)
    }
  }

  test("under format 1 the earliest attempt of a run is found, and nothing of other runs") {
    withStore { (store, _) =>
      def known(run: Long, runId: String) = store.knownOf(1, Some(run), runId).map { case (id, report) =>
        id -> report.results
      }
      val (early, late) = (Attempt(2, 17).newId(), Attempt(2, 101).newId())
      write(store, Attempt(1, 500).newId(), "run 1", 1)
      assert(known(2, "run 2").isEmpty)
      write(store, late, "run 2", 2)
      write(store, early, "run 2", 2, 3)
      assert(known(2, "run 2").contains(early -> 2L))
      assert(known(2, "another driver's").isEmpty)
      assert(store.knownOf(1, None, "run 2").isEmpty)
      assert(store.results(StateVersion(1, Some(late))).map(_.getLong(0)).toSeq == Seq(2))
    }
  }

  random("a file that is cut or changed anywhere is never taken for whole", few = 60, many = 2000) { most =>
    withStore { (store, folder) =>
      write(store, "a", "run", 1, 2)
      val file = Files.list(folder).iterator.asScala.find(_.toString.endsWith(".carried")).get
      val whole = Files.readAllBytes(file)
      def isRefused(bytes: Array[Byte]): Boolean = {
        Files.write(file, bytes)
        val version = StateVersion(1, Some("a"))
        Seq[() => Unit](() => store.results(version).foreach(_ => ()), () => store.state(version): Unit)
          .forall { read =>
            try {
              read()
              false
            } catch { case _: StateException | _: RuntimeException => true }
          }
      }
      val step = math.max(1, whole.length / most.value)
      whole.indices.by(step).foreach(length => assert(isRefused(whole.take(length)), s"cut at $length"))
      val header = 10
      (header until whole.length by step).foreach { at =>
        val changed = whole.clone()
        changed(at) = (changed(at) ^ 0x20).toByte
        assert(isRefused(changed), s"changed at $at")
      }
    }
  }

  test("a version that is not there is named") {
    withStore { (store, _) =>
      val error = intercept[StateException](store.results(StateVersion(5, None)))
      assert(error.getMessage.contains("5.carried"))
    }
  }
}
