package io.pillarbox.spark.async.carry

import java.io.{DataInputStream, DataOutputStream, InputStream, OutputStream}
import java.util
import java.util.{Collection => JCollection}

import scala.jdk.CollectionConverters._

import io.pillarbox.async.queue.StreamElement
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}

/**
 * The contents of a version of a slot, besides the results that wait to be emitted.
 *
 * @param runId the run of the query that wrote it
 * @param elements
 *   in flight, in the order in which they were taken in; their timestamps are the times of that, in ms
 * @param nextElementId the id of the next new element
 * @param results rows that wait to be emitted
 * @param resultsHoldMicros
 *   the earliest event time among them that holds the watermark back, in µs; `Long.MaxValue` for none
 */
private[carry] final case class SlotState(
    runId: String,
    elements: util.List[StreamElement[InternalRow, InternalRow]],
    nextElementId: Long,
    results: Long,
    resultsHoldMicros: Long
) {

  /** The figures that the driver is told. */
  def report: SlotReport =
    SlotReport(results, elements.size, calls, math.min(resultsHoldMicros, elementsHoldMicros))

  /**
   * The same, with no element taken in after `nowMs`: one by a clock that was ahead counts as new, and gets
   * as old as others from now on.
   */
  def notAfter(nowMs: Long): SlotState = copy(elements = util.List.copyOf(elements.asScala.map {
    case record @ StreamElement.Record(_, _, at) if at > nowMs => record.copy(timestampMs = nowMs)
    case answered @ StreamElement.Answered(_, _, at, _) if at > nowMs => answered.copy(timestampMs = nowMs)
    case other => other
  }.asJava))

  private def calls: Int = elements.asScala.count(_.isInstanceOf[StreamElement.Record[_]])

  private def elementsHoldMicros: Long = elements.asScala.foldLeft(Long.MaxValue) { (least, element) =>
    element match {
      case StreamElement.Record(_, row: CarriedRow, _) => math.min(least, row.holdMicros)
      case StreamElement.Answered(_, row: CarriedRow, _, _) => math.min(least, row.holdMicros)
      case _ => least
    }
  }
}

private[carry] object SlotState {

  /** Before the first micro-batch. */
  val Empty: SlotState = SlotState("", util.List.of(), 0, 0, Long.MaxValue)
}

/**
 * The figures of a version of a slot.
 *
 * @param results rows that wait to be emitted
 * @param inFlight rows that were taken in and whose results are not among those
 * @param calls the number of them that have a call to be made
 * @param holdMicros the event time behind which the watermark stays, in µs; `Long.MaxValue` for none
 */
private[pillarbox] final case class SlotReport(results: Long, inFlight: Int, calls: Int, holdMicros: Long) {
  def isEmpty: Boolean = results == 0 && inFlight == 0

  /** Adds the figures of two slots. */
  def +(that: SlotReport): SlotReport = SlotReport(
    results + that.results,
    inFlight + that.inFlight,
    calls + that.calls,
    math.min(holdMicros, that.holdMicros)
  )
}

private[pillarbox] object SlotReport {
  val Empty: SlotReport = SlotReport(0, 0, 0, Long.MaxValue)
}

/**
 * The two parts of a slot's file: results as they came, each behind its length; then the rest of the state.
 *
 * @param inputWidth columns of the input
 * @param answerWidth columns that the operator adds
 * @param toDone takes out of a row what it needs no more once its call is done
 */
private[carry] final class SlotStateFormat(
    inputWidth: Int,
    answerWidth: Int,
    toAnswer: UnsafeProjection,
    toDone: UnsafeRow => UnsafeRow = identity
) {
  import SlotStateFormat._

  def write(stream: OutputStream, state: SlotState): Unit = {
    val out = new DataOutputStream(stream)
    out.writeUTF(state.runId)
    out.writeLong(state.nextElementId)
    out.writeLong(state.results)
    out.writeLong(state.resultsHoldMicros)
    out.writeInt(state.elements.size)
    state.elements.forEach(write(out, _))
    out.flush()
  }

  private def write(out: DataOutputStream, element: StreamElement[InternalRow, InternalRow]): Unit =
    element match {
      case StreamElement.Record(id, row: CarriedRow, admittedMs) =>
        writeInput(out, InFlight, id, row, row.row, admittedMs)
      case StreamElement.Answered(id, row: CarriedRow, admittedMs, results) =>
        writeInput(out, Answered, id, row, toDone(row.row), admittedMs)
        out.writeInt(results.size)
        results.forEach(result => writeRow(out, toAnswer(result)))
      case other => throw new IllegalStateException(s"A slot carries no $other")
    }

  private def writeInput(
      out: DataOutputStream,
      kind: Byte,
      id: Long,
      row: CarriedRow,
      content: UnsafeRow,
      admittedMs: Long
  ): Unit = {
    out.writeByte(kind.toInt)
    out.writeLong(id)
    out.writeLong(admittedMs)
    out.writeLong(row.holdMicros)
    writeRow(out, content)
  }

  def read(stream: InputStream): SlotState = {
    val in = new DataInputStream(stream)
    val (runId, nextElementId, results, hold) = (in.readUTF(), in.readLong(), in.readLong(), in.readLong())
    val count = in.readInt()
    val elements = new util.ArrayList[StreamElement[InternalRow, InternalRow]]
    (0 until count).foreach(_ => elements.add(readElement(in)))
    SlotState(runId, elements, nextElementId, results, hold)
  }

  private def readElement(in: DataInputStream): StreamElement[InternalRow, InternalRow] = {
    val kind = in.readByte()
    val (id, admittedMs, hold) = (in.readLong(), in.readLong(), in.readLong())
    val row = new CarriedRow(readRow(in, inputWidth), hold)
    if (kind == InFlight) StreamElement.Record(id, row, admittedMs)
    else StreamElement.Answered(id, row, admittedMs, readAnswers(in))
  }

  private def readAnswers(in: DataInputStream): JCollection[InternalRow] = {
    val rows = new util.ArrayList[InternalRow]
    (0 until in.readInt()).foreach(_ => rows.add(readRow(in, answerWidth)))
    rows
  }

  /** The results in a file's first part, one after the other. */
  def results(stream: InputStream): Iterator[UnsafeRow] = {
    val in = new DataInputStream(stream)
    Iterator.continually(in.readInt()).takeWhile(_ != End).map(readRow(in, _, inputWidth + answerWidth))
  }
}

private[carry] object SlotStateFormat {
  private final val InFlight: Byte = 0
  private final val Answered: Byte = 1
  private final val End = -1

  /** A row behind its length in bytes. */
  def writeRow(out: DataOutputStream, row: UnsafeRow): Unit = {
    out.writeInt(row.getSizeInBytes)
    row.writeToStream(out, null)
  }

  def writeEnd(out: DataOutputStream): Unit = out.writeInt(End)

  private def readRow(in: DataInputStream, width: Int): UnsafeRow = readRow(in, in.readInt(), width)

  private def readRow(in: DataInputStream, bytes: Int, width: Int): UnsafeRow = {
    val content = new Array[Byte](bytes)
    in.readFully(content)
    val row = new UnsafeRow(width)
    row.pointTo(content, bytes)
    row
  }
}
