package io.pillarbox.spark.checkpoint

import java.nio.file.Path
import java.util.concurrent.ConcurrentSkipListMap

import scala.jdk.CollectionConverters._

import io.pillarbox.spark.SpecBuilder
import io.pillarbox.spark.functions.Held
import io.pillarbox.spark.keyed.{Event, KeyedFixture, Spec}
import io.pillarbox.tags.Nightly
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.{DataFrame, Row}
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

/**
 * Under checkpoint format 1: an attempt that everybody has given up writes its file when the micro-batch was
 * run again and is committed, on file systems whose rename does not replace a file, or replaces it unasked.
 */
class LateAttemptSuite extends AnyFunSuite with KeyedFixture with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(60, Seconds))

  /** Each backend, format and kind of rename is in one of them. */
  private val ByDay = Set(("heap", "1", false), ("rocksdb", "1", true), ("rocksdb", "2", false))

  private def withHeld(format: String)(body: Path => Unit): Unit = {
    OddFileSystem.install("held", spark.sparkContext.hadoopConfiguration)
    withSettings(checkpointFormat(format): _*)(
      try withFolder(body)
      finally HeldFiles.replaces = false
    )
  }

  for {
    backend <- Seq("heap", "rocksdb")
    format <- Seq("1", "2")
    replaces <- Seq(false, true)
  } test(
    s"$backend, format $format, rename replaces $replaces: it changes nothing of keyed state",
    Seq(Nightly).filterNot(_ => ByDay((backend, format, replaces))): _*
  ) {
    withHeld(format) { folder =>
      HeldFiles.replaces = replaces
      val stream = new Stream(folder)
      val counted = process(stream.input, Spec(backend = backend, timers = backend))
      def start() = counted.writeStream
        .option("checkpointLocation", s"held://$folder/checkpoint")
        .foreachBatch((batch: DataFrame, id: Long) => stream.batches.put(id, batch.collect().toSeq): Unit)
        .start()
      val keys = (0 until 8).map(_.toString)
      def add(): Unit = stream.add(keys.map(Event(_, 1, 1)): _*)
      add()
      val first = start()
      first.processAllAvailable()
      HeldFiles.hold(path => path.toString.matches(".*/state/0/0/2(_[^/]+)?\\.delta"))
      add()
      HeldFiles.awaitHeld()
      first.stop()
      val second = start()
      try {
        second.processAllAvailable()
        HeldFiles.letGo()
        add()
        second.processAllAvailable()
      } finally second.stop()
      add()
      val third = start()
      try third.processAllAvailable()
      finally third.stop()
      val counts = stream.rows.filter(_.getString(1) == "row").groupMap(_.getString(0))(_.getLong(2))
      assert(counts == keys.map(_ -> Seq(1L, 2L, 3L, 4L)).toMap)
    }
  }

  for {
    format <- Seq("1", "2")
    replaces <- Seq(false, true)
  } test(
    s"format $format, rename replaces $replaces: it changes nothing of carried calls",
    Seq(Nightly).filter(_ => (format == "1") == replaces): _*
  ) {
    withHeld(format) { folder =>
      HeldFiles.replaces = replaces
      import spark.implicits._
      val memory = MemoryStream[Long](spark)
      val ids = 1L to 4L
      val batches = new ConcurrentSkipListMap[Long, Seq[Row]]
      def start(capacity: Int) = SpecBuilder
        .asyncIO(memory.toDF().toDF("id"), classOf[Held], "x long") { spec =>
          spec.put("capacity", capacity).putObject("carry_over").put("slots", 1): Unit
        }
        .writeStream
        .option("checkpointLocation", s"held://$folder/checkpoint")
        .foreachBatch((batch: DataFrame, id: Long) => batches.put(id, batch.collect().toSeq): Unit)
        .start()
      // The first run has answers in its version, the second one all calls in flight.
      Held.reset(below = 10)
      HeldFiles.hold(path => path.toString.matches(".*/state/0/0/1(_[^/]+)?\\.carried"))
      memory.addData(ids)
      val first = start(capacity = 1)
      HeldFiles.awaitHeld()
      first.stop()
      Held.reset(below = 0)
      val second = start(capacity = 9)
      try {
        eventually(assert(second.lastProgress != null && second.lastProgress.batchId == 0))
        HeldFiles.letGo()
        Held.held.asScala.foreach { case (id, future) => future.completeOne(Row(id)) }
        second.processAllAvailable()
      } finally second.stop()
      assert(batches.values.asScala.flatten.toSeq.sortBy(_.getLong(0)) == ids.map(id => Row(id, id)))
    }
  }
}
