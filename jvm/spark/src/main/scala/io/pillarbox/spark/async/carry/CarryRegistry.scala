package io.pillarbox.spark.async.carry

import java.io.{DataInputStream, DataOutputStream}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import io.pillarbox.spark.checkpoint.{OperatorMetadata, StateFolder}
import io.pillarbox.spark.state.StateMaintenance
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pillarbox.{BatchOffsets, DriverMessages}

/**
 * The driver's knowledge of one operator in one run of a query: the version that has something to emit, and
 * the output watermark. The thread of the query, but for wake-ups.
 *
 * The output watermark of micro-batch N+1 is the input watermark of micro-batch N, held behind the oldest row
 * that version N+1 carries. It is written before the micro-batch runs, so that another driver that runs it
 * again has the same one.
 *
 * @param folder
 *   where watermarks are written
 */
private[pillarbox] final class CarryRegistry(folder: StateFolder, session: SparkSession, state: String) {
  @volatile private var due = -1L
  @volatile private var lostExecutor = false
  private val failed = ConcurrentHashMap.newKeySet[Int]
  private var toDrain = false
  private var watermarks = Map.empty[Long, Long]
  private var asked = 0
  private var hasWritten = false
  private var begun = -1L

  /** The checkpoint's metadata of the operator, once it was compared with the present operator. */
  var metadata: Option[OperatorMetadata] = None

  /** The places of the columns that rows are kept with, once it was compared. */
  var kept: Seq[Int] = Nil

  /** An executor has said that a version has results. */
  def wake(version: Long): Unit = due = math.max(due, version)

  /**
   * The calls of a slot have failed. The next micro-batch waits until they are done: an attempt of a task
   * that only made them again would succeed, and a call that always fails would never use up the task's
   * attempts.
   */
  def fail(slot: Int): Unit = failed.add(slot): Unit

  /** Calls in flight may be lost, and are made again by the next micro-batch. */
  def executorLost(): Unit = lostExecutor = true

  /** True if there is something to emit, or to call again, since `version` was committed. */
  def isDue(version: Long, hasCalls: Boolean): Boolean =
    due >= version || !failed.isEmpty || (lostExecutor && hasCalls)

  /** Somebody waits for all calls: the next micro-batch is to wait for them, if it has no rows. */
  def askToDrain(): Unit = toDrain = true

  /** True for the first who writes a version. Any thread. */
  def begins(version: Long): Boolean = synchronized {
    val isFirst = version > begun
    begun = math.max(begun, version)
    isFirst
  }

  /** A micro-batch begins: it finds out what was lost or has failed. */
  def batchStarts(): CarryRegistry.Drain = {
    lostExecutor = false
    val drain = CarryRegistry.Drain(toDrain, failed.asScala.toSet)
    toDrain = false
    drain.failed.foreach(failed.remove(_))
    drain
  }

  /** The output watermark of a micro-batch whose version is the last that this run has committed. */
  def advance(version: Long, inputWatermark: Long, holdMicros: Long): Long = {
    val held =
      if (holdMicros == Long.MaxValue) inputWatermark
      else math.min(inputWatermark, Math.floorDiv(holdMicros - 1, 1000L))
    val watermark = math.max(watermarks.getOrElse(version - 1, 0L), held)
    watermarks = watermarks.filter(_._1 >= version - 1).updated(version, watermark)
    watermark
  }

  /**
   * The output watermark of a restarted query's first micro-batch, or of the one before it: Spark asks for
   * both, in this order, but not for one whose sources had no watermark yet.
   */
  def restart(version: Long): Long = watermarks.getOrElse(
    version, {
      asked += 1
      val (before, now) = read(version).orElse(read(version - 1).map(w => (w._2, w._2))).getOrElse((0L, 0L))
      val isBefore = asked == 1 && BatchOffsets.watermarkOf(session, state, version - 1) > 0
      if (!isBefore) watermarks = Map(version - 1 -> before, version -> now)
      if (isBefore) before else now
    }
  )

  /**
   * Writes the watermarks of a micro-batch that is about to run, and forgets old ones, and in a run's first
   * those of later ones, behind which the query was taken back.
   */
  def write(version: Long, keep: Int): Unit = {
    if (!hasWritten) folder.listNames().filter(numberOf(_).exists(_ > version)).foreach(folder.deleteNamed)
    hasWritten = true
    folder.writeNamed(nameOf(version)) { stream =>
      val out = new DataOutputStream(stream)
      out.writeLong(watermarks.getOrElse(version - 1, 0L))
      out.writeLong(watermarks.getOrElse(version, 0L))
      out.flush()
    }
    if (version > keep) {
      val old = nameOf(version - keep - 1)
      StateMaintenance.later(s"delete $old in ${folder.path}")(folder.deleteNamed(old))
    }
  }

  private def read(version: Long): Option[(Long, Long)] =
    Option.when(version >= 0 && folder.listNames().contains(nameOf(version))) {
      folder.readNamed(nameOf(version), "carry_over") { stream =>
        val in = new DataInputStream(stream)
        (in.readLong(), in.readLong())
      }
    }

  private def nameOf(version: Long) = s"$version.watermark"

  private def numberOf(name: String): Option[Long] =
    Option(name).filter(_.endsWith(".watermark")).flatMap(_.stripSuffix(".watermark").toLongOption)
}

private[pillarbox] object CarryRegistry extends DriverMessages.Listener {

  /**
   * The slots that wait in a micro-batch until nothing is in flight.
   *
   * @param withoutRows
   *   those that get no rows
   * @param failed
   *   these, whatever they get
   */
  final case class Drain(withoutRows: Boolean, failed: Set[Int]) {
    def of(slot: Int, hadRows: Boolean): Boolean = failed(slot) || (withoutRows && !hadRows)
  }

  private val ledgers = new ConcurrentHashMap[String, CarryRegistry]

  def keyOf(runId: String, operator: Long): String = s"$runId/$operator"

  /** The knowledge of an operator in a run, once it was compared. */
  def noteOf(runId: String, operator: Long): Option[OperatorMetadata] =
    Option(ledgers.get(keyOf(runId, operator))).flatMap(_.metadata)

  /** The number of runs, for tests. */
  private[carry] def size: Int = ledgers.size

  def of(runId: String, operator: Long)(make: => CarryRegistry): CarryRegistry =
    ledgers.computeIfAbsent(keyOf(runId, operator), _ => make)

  /** Forgets a run that has ended, and lets its executors free what they have of it. */
  def close(runId: String): Unit =
    if (ledgers.keySet.removeIf(_.startsWith(s"$runId/"))) DriverMessages.closeRun(runId)

  override def onWake(key: String, version: Long): Unit = Option(ledgers.get(key)).foreach(_.wake(version))

  override def onFail(key: String, slot: Int): Unit = Option(ledgers.get(key)).foreach(_.fail(slot))

  override def onExecutorLost(): Unit = ledgers.values.asScala.foreach(_.executorLost())
}
