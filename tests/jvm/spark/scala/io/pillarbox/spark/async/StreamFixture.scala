package io.pillarbox.spark.async

import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import io.pillarbox.spark.functions.Held
import io.pillarbox.spark.{LocalSpark, SpecBuilder}
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.sql.{DataFrame, ForeachWriter, Row}
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}
import org.scalatest.{BeforeAndAfterEach, Suite}

/** Streaming queries with a call for each row, whose input blocks when a test says so. */
trait StreamFixture extends AnyFunSuite with LocalSpark with Eventually with BeforeAndAfterEach {
  this: Suite =>
  override implicit val patienceConfig: PatienceConfig =
    PatienceConfig(Span(30, Seconds), Span(5, Millis))

  override protected def beforeEach(): Unit = {
    Gate.closeAt(Long.MaxValue)
    Seen.rows.clear()
    Held.reset(below = Long.MaxValue)
  }

  override protected def afterEach(): Unit = {
    Gate.closeAt(Long.MaxValue)
    spark.streams.active.foreach(_.stop())
  }

  def calls(rows: DataFrame, result: String)(change: ObjectNode => Unit = _ => ()): DataFrame =
    SpecBuilder.asyncIO(rows, classOf[Held], s"$result long")(change)

  def start(
      rows: DataFrame,
      trigger: Trigger = Trigger.ProcessingTime(0),
      checkpoint: Path = Files.createTempDirectory("calls")
  ): StreamingQuery = rows.writeStream
    .foreach(new Seen)
    .outputMode("update")
    .trigger(trigger)
    .option("checkpointLocation", checkpoint.toString)
    .start()

  def seen: Seq[Row] = Seen.rows.asScala.toSeq

  /** Whether any row of a task is being read by a thread of its own. */
  def isReading: Boolean =
    Thread.getAllStackTraces.keySet.asScala.exists(_.getName.startsWith("pillarbox input"))

  def causes(error: Throwable): Seq[Throwable] =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).toSeq
}

/** Lets the rows below a number pass, and holds those from there. */
object Gate {
  private var closedAt = Long.MaxValue

  def closeAt(first: Long): Unit = synchronized {
    closedAt = first
    notifyAll()
  }

  def pass(row: Long): Long = synchronized {
    while (row >= closedAt) wait()
    row
  }
}

/** The rows that have left the query, in order. */
final class Seen extends ForeachWriter[Row] {
  override def open(partition: Long, epoch: Long): Boolean = true
  override def process(row: Row): Unit = Seen.rows.add(row): Unit
  override def close(error: Throwable): Unit = ()
}

object Seen {
  val rows = new ConcurrentLinkedQueue[Row]
}
