package io.pillarbox.spark.keyed.python

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer

import io.pillarbox.spark.state.{InitialTarget, UnsafeRowSerializer}
import io.pillarbox.spark.worker.{
  ArrowBatchReader,
  ArrowBatchWriter,
  FrameSize,
  PythonTaskFailure,
  PythonWorkerException
}
import io.pillarbox.state.ttl.{Cleaner, TtlPolicy}
import io.pillarbox.state.{ExpirySink, KeyedStateBackend, Timestamped}
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._

/**
 * The transfer of one declared state to the worker and back, under the backend's current key. The worker
 * judges TTL, so state is sent as it is stored, and what comes back is stored with its timestamp.
 *
 * @param stored the state in the backend
 * @param arrow converts a schema into Arrow's, by the session's settings
 * @param project makes a projection to rows of Spark's own kind
 */
private abstract class PythonState(
    val declared: DeclaredState,
    stored: Timestamped,
    cells: StructType,
    changes: StructType,
    arrow: StructType => Schema,
    backend: KeyedStateBackend[UnsafeRow],
    project: StructType => UnsafeProjection
) extends AutoCloseable {

  /** The TTL, or null without one. */
  protected val policy: TtlPolicy = TtlPolicy.of(stored.descriptor, backend).orNull
  private val cleaner =
    if (policy == null) null else new Cleaner(policy, stored, backend, ExpirySink.None)

  /** The changes since the last clean-up. */
  private var accesses = 0
  protected val writer = new ArrowBatchWriter(arrow(cells))

  /** The row that is written next; the writer copies it. */
  protected val cell = new GenericInternalRow(cells.length)

  /** Takes cells that come before those of the frame. */
  private var sendAhead: (Int, Seq[ByteBuffer]) => Unit = _
  private val reader = new ArrowBatchReader(arrow(changes))
  private val toValue = project(declared.valueType)

  /** The schema of the cells, for SCHEMAS. */
  def cellSchema: Schema = writer.schema

  private var refused: PythonTaskFailure => Throwable = identity

  /**
   * @param send takes cells that come before those of the next message, as an Arrow batch that is valid until
   *   it returns
   * @param refuse the error to throw for a value or entry that is too large
   */
  def onMany(send: Seq[ByteBuffer] => Unit, refuse: PythonTaskFailure => Throwable): Unit = {
    sendAhead = (_, parts) => send(parts)
    refused = refuse
  }

  /** Writes `cell`, whose values have so many bytes. */
  protected def writeCell(bytes: Long): Unit =
    writer.writeBounded(cell, PythonState.CellBytes + bytes, sendAhead)(tooLarge)

  private val tooLarge: (Long, FrameSize) => Throwable = (bytes, size) =>
    refused(new PythonWorkerException(size.refusal(FrameSize.StateTooLarge, bytes, "state" -> declared.name)))

  /** Adds the state of the current key: number `keyIndex` of all, `index` of the new. Returns its bytes. */
  def addCells(keyIndex: Int, index: Int): Long

  /** Adds a key of which nothing is stored. */
  def addNothing(index: Int): Unit

  /** Returns the cells that were added, as a blob's bytes, and starts anew. Valid until the next cell. */
  def finishCells(): Seq[ByteBuffer] = writer.finishParts()

  /** Carries out the changes of an UPDATE; `select` makes the key of an index the current one. */
  def applyChanges(blob: ByteBuffer, select: Int => Unit): Unit = if (blob.hasRemaining) {
    val batch = reader.read(blob)
    var i = 0
    while (i < batch.numRows) {
      val row = batch.getRow(i)
      select(row.getInt(0))
      change(row)
      i += 1
    }
    accesses += batch.numRows
  }

  /**
   * Removes expired state under keys that nobody touches, in proportion to the changes since the last time.
   * Only when the worker holds no keys: what it has renewed is not stored before.
   */
  def cleanUp(): Unit = {
    if (cleaner != null) cleaner.sweep(accesses)
    accesses = 0
  }

  /** Returns the entries of the current key that a QUERY asks for, by a map key or the place of a page. */
  def answer(op: Int, asked: ByteBuffer): Answer =
    throw new IllegalStateException(s"State '${declared.name}' is sent whole, and can't be asked for")

  def initialTarget: InitialTarget = InitialTarget.of(
    backend,
    stored.descriptor,
    UnsafeRowSerializer.shownType(declared.valueType),
    declared.keyType.map(UnsafeRowSerializer.shownType).orNull
  )(
    declared.keyType.fold[Any => Any](identity)(UnsafeRowSerializer.fromShown),
    UnsafeRowSerializer.fromShown(declared.valueType)
  )

  /** Removes the state of the current key. */
  def clear(): Unit = stored.clear()

  protected def change(row: InternalRow): Unit

  protected def valueOf(row: InternalRow, ordinal: Int): UnsafeRow =
    toValue(row.getStruct(ordinal, declared.valueType.length)).copy()

  /** The timestamp as the worker gets it. */
  protected def sent(timestamp: Long): Long = if (policy == null) 0L else policy.known(timestamp)

  override def close(): Unit = {
    writer.close()
    reader.close()
  }
}

/** A list or map: flags tell which keys have more than is sent with the frame, since cells don't. */
private abstract class PythonCollectionState(
    declared: DeclaredState,
    stored: Timestamped,
    cells: StructType,
    changes: StructType,
    arrow: StructType => Schema,
    backend: KeyedStateBackend[UnsafeRow],
    project: StructType => UnsafeProjection
) extends PythonState(declared, stored, cells, changes, arrow, backend, project) {
  private val flags = new ByteArrayOutputStream

  /** Notes whether the next key has so much that it has to be asked for. */
  protected def note(isLarge: Boolean): Unit = flags.write(if (isLarge) 1 else 0)

  override def addNothing(index: Int): Unit = note(isLarge = false)

  override def finishCells(): Seq[ByteBuffer] = {
    val perKey = ByteBuffer.wrap(flags.toByteArray)
    flags.reset()
    perKey +: super.finishCells()
  }
}

/**
 * The entries that answer a QUERY, valid until the next one, and the place of the next page, empty for none.
 */
private final case class Answer(entries: Seq[ByteBuffer], next: Array[Byte] = Answer.Nothing)

private object Answer {
  val Nothing: Array[Byte] = Array.emptyByteArray
}

/** How much of a large list or map is sent at a time: so much becomes objects in the worker at once. */
private final class Page {
  private var entries = 0
  private var bytes = 0L

  /** Counts an entry of so many bytes; false if the page ends with it. */
  def takesMore(more: Long): Boolean = {
    entries += 1
    bytes += more
    entries < PythonState.PageEntries && bytes < PythonState.PageBytes
  }
}

private object PythonState {

  /** List elements and map entries that are sent with the frame; a key that has more is asked for. */
  val InlineEntries = 256
  val PageEntries: Int = 1 << 14
  val PageBytes: Long = 2L << 20

  /** The bytes of key index, operation and time, which a cell has beside its values. */
  private val CellBytes = 16L

  def schema(fields: (String, DataType)*): StructType =
    StructType(fields.map { case (name, dataType) => StructField(name, dataType) })
}
