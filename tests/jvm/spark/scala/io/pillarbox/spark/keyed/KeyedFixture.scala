package io.pillarbox.spark.keyed

import java.nio.file.{Files, Path}
import java.sql.Timestamp
import java.util.concurrent.ConcurrentSkipListMap

import scala.jdk.CollectionConverters._
import scala.util.Try

import io.pillarbox.spark.async.KeyedCallMetrics
import io.pillarbox.spark.async.carry.CarryMetrics
import io.pillarbox.spark.state.StateMaintenance
import io.pillarbox.spark.{LocalSpark, PythonBridge, SpecBuilder}
import org.apache.commons.io.FileUtils
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row}

/** A row of the tests' input: key, value, event time in milliseconds. */
final case class Event(k: String, v: Long, t: Long)

/** Streams from memory, and what queries put out, on the session that all suites share. */
trait KeyedFixture extends LocalSpark {

  def withFolder[A](use: Path => A): A = {
    val folder = Files.createTempDirectory("pillarbox-test")
    try use(folder)
    finally {
      StateMaintenance.unloadInactive()
      // A snapshot may still be on its way there.
      awaitMaintenance()
      // Quietly, as a task that was not needed any more may still write there.
      FileUtils.deleteQuietly(folder.toFile): Unit
    }
  }

  /** The names of the metrics that only carry-over has, as Spark's UI shows them. */
  def metricsOfCarryOver: Seq[String] = CarryMetrics.descriptions.map(_._2)

  /** The same of those that only functions with calls of their own have. */
  def metricsOfKeyedCalls: Seq[String] = KeyedCallMetrics.descriptions(Nil).map(_._2)

  /** Waits for the work on state in the background that was asked for before. */
  def awaitMaintenance(): Unit = StateMaintenance.awaitDone()

  /** The error and what caused it. */
  def causes(error: Throwable): Seq[String] =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).map(e => String.valueOf(e.getMessage)).toSeq

  /** The settings of a format of checkpoints. Spark allows the second with its own RocksDB store only. */
  def checkpointFormat(format: String): Seq[(String, String)] = Seq(
    "spark.sql.streaming.stateStore.checkpointFormatVersion" -> format,
    "spark.sql.streaming.stateStore.providerClass" ->
      "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
  )

  def withSettings[A](settings: (String, String)*)(body: => A): A = {
    val before = settings.map { case (key, _) => key -> spark.conf.getOption(key) }
    settings.foreach { case (key, value) => spark.conf.set(key, value) }
    try body
    finally before.foreach { case (key, value) => value.fold(spark.conf.unset(key))(spark.conf.set(key, _)) }
  }

  /** Starts the query until it has processed all that there is, however often it fails. */
  def getThrough(start: => StreamingQuery): Unit = {
    var done = false
    var tries = 0
    while (!done) {
      tries += 1
      if (tries == 200) throw new AssertionError("the query never gets through")
      Try(start).foreach { query =>
        done = Try(query.processAllAvailable()).isSuccess
        query.stop()
      }
    }
  }

  /** Input with columns k, v, ts. */
  def frame(events: Seq[Event]): DataFrame = {
    import spark.implicits._
    events.map(row).toDF("k", "v", "ts")
  }

  def row(event: Event): (String, Long, Timestamp) = (event.k, event.v, new Timestamp(event.t))

  def process(df: DataFrame, spec: Spec): DataFrame = PythonBridge.processKeyed(df, null, spec.json, null)

  /** A stream from memory that outlives queries, with the batches that they put out. */
  final class Stream(val checkpoint: Path) {
    private val memory = {
      import spark.implicits._
      implicit val sqlContext: org.apache.spark.sql.SQLContext = spark.sqlContext
      MemoryStream[(String, Long, Timestamp)]
    }
    val batches = new ConcurrentSkipListMap[Long, Seq[Row]]

    def input: DataFrame = memory.toDF().toDF("k", "v", "ts")

    def watermarked: DataFrame = input.withWatermark("ts", "0 seconds")

    def add(events: Event*): Unit = memory.addData(events.map(row)): Unit

    /** All that was put out, a batch that ran twice counted once. */
    def rows: Seq[Row] = batches.values.asScala.flatten.toSeq

    def start(
        df: DataFrame,
        mode: String = "append",
        trigger: Trigger = Trigger.ProcessingTime(0)
    ): StreamingQuery =
      df.writeStream
        .outputMode(mode)
        .option("checkpointLocation", checkpoint.toString)
        .trigger(trigger)
        .foreachBatch((batch: DataFrame, id: Long) => batches.put(id, batch.collect().toSeq): Unit)
        .start()

    /** Runs a query while `body` does; each of its steps can wait until all is processed. */
    def running[A](df: DataFrame, mode: String = "append")(body: StreamingQuery => A): A = {
      val query = start(df, mode)
      try body(query)
      finally query.stop()
    }

    /** Processes what is there, including what that leads to, in a run of the query of its own. */
    def runOnce(df: DataFrame, mode: String = "append"): Unit = running(df, mode)(_.processAllAvailable())
  }
}

/** The options of a keyed operator, as the Python API would send them. */
final case class Spec(
    className: String = classOf[Count].getName,
    backend: String = "heap",
    timers: String = "heap",
    form: String = "jvm",
    returns: String = "k string, what string, n bigint, t bigint",
    by: Seq[String] = Seq("k"),
    timestamp: Option[String] = None,
    orderBy: Seq[String] = Nil,
    timeSorted: Boolean = false,
    inputs: Seq[String] = Nil,
    options: Map[String, String] = Map.empty,
    extra: String = ""
) {
  def json: String = {
    def quoted(texts: Seq[String]) = texts.map("\"" + _ + "\"").mkString("[", ",", "]")
    val optionsJson = options.map { case (k, v) => s""""$k":"$v"""" }.mkString("{", ",", "}")
    SpecBuilder.keyed(
      s"""{"name":"test","form":"$form","class_name":"$className","options":$optionsJson,"by":${quoted(by)},
       |"returns":${StructType.fromDDL(returns).json},"timestamp":${timestamp.fold("null")("\"" + _ + "\"")},
       |"backend":"$backend","timers":"$timers","order_by":${quoted(orderBy)},"time_sorted":$timeSorted,
       |"inputs":${quoted(
          inputs
        )},"names_event_time":${timestamp.isDefined || timeSorted}$extra}""".stripMargin
    )
  }
}
