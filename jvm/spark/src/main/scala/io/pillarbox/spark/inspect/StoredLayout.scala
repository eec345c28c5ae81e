package io.pillarbox.spark.inspect

import java.io.InputStream
import java.nio.file.{Files, Path}

import io.pillarbox.api.StateDescriptor.Kind
import io.pillarbox.api.{InputView, TimeDomain}
import io.pillarbox.operator.WaitingRows
import io.pillarbox.spark.state.{InitialState, PartitionState, StoredType, UnsafeRowSerializer}
import io.pillarbox.state.StateClock
import io.pillarbox.state.changelog.{StateEntries, StateMeta, StoredEntry}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection}
import org.apache.spark.sql.execution.{UnsafeRowSerializer => SparkRowSerializer}
import org.apache.spark.sql.pillarbox.LocalFolders
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** The layout of one kind of state as rows. It travels to the tasks. */
private sealed trait StoredLayout extends Serializable {

  def keys: StructType

  /** The columns of each key, between the key and the partition. */
  protected def columns: Seq[StructField]

  final def schema: StructType =
    StructType(field("key", keys) +: columns :+ field("partition_id", IntegerType))

  /**
   * Returns the rows of a partition.
   *
   * @param scratch a local file that may be overwritten
   * @param later takes what is to be closed when no more rows are asked for
   */
  def rows(
      state: PartitionState,
      partition: Int,
      scratch: Path,
      later: AutoCloseable => Unit
  ): Iterator[InternalRow]

  /** Reads a file, which is closed at its end: one that is deleted keeps its room on the disk until then. */
  protected def reading[T](file: Path, later: AutoCloseable => Unit)(
      entries: InputStream => Iterator[T]
  ): Iterator[T] = {
    val in = Files.newInputStream(file)
    later(in)
    def end: Iterator[T] = {
      in.close()
      Iterator.empty
    }
    entries(in) ++ end
  }

  protected def field(name: String, dataType: DataType): StructField = StructField(name, dataType)

  protected def row(values: Any*): InternalRow = new GenericInternalRow(values.toArray)

  /** Converts milliseconds to Catalyst's timestamp; null if unknown or out of range. */
  protected def micros(ms: Long): Any =
    if (ms == StateClock.Unknown || ms > Long.MaxValue / 1000 || ms < Long.MinValue / 1000) null
    else ms * 1000

  /** The same of a time that may be far from those of all rows; null too where a `datetime` of Python can't be it. */
  protected def shownMicros(ms: Long): Any =
    if (ms < StoredLayout.FirstShown || ms > StoredLayout.LastShown) null else ms * 1000
}

private object StoredLayout {

  /** The times that are in the years 1 to 9999 in every time zone. */
  final val FirstShown = -62135596800000L + 86400000L
  final val LastShown = 253402300799999L - 86400000L
}

/**
 * One row for each value, accumulator, element or entry of a state, or for each row that waits for the
 * watermark. They are read from a snapshot in the portable format, which all backends share.
 */
private final class EntryLayout(override val keys: StructType, state: StateMeta) extends StoredLayout {
  private type Column = (StructField, StoredEntry => Any)

  @transient private var last: InternalRow = _
  @transient private var index = 0

  @transient private lazy val own: Seq[Column] = {
    val value = column(StoredType.of(state.value), "value")(_.value)
    // The times when the entry was written or renewed, and when it expires.
    def lifetime: Seq[Column] = Seq(
      field("timestamp", TimestampType) -> (entry => micros(entry.timestamp)),
      field("expires_at", TimestampType) -> expiry
    )
    state.kind match {
      case _ if state.name == WaitingRows.StateName =>
        def time(entry: StoredEntry) = micros(entry.namespace.readLong())
        Seq(value, field("timestamp", TimestampType) -> time)
      case Kind.LIST => Seq[Column](field("index", IntegerType) -> (_ => index), value) ++ lifetime
      case Kind.MAP => Seq(column(StoredType.of(state.userKey.get), "map_key")(_.userKey), value) ++ lifetime
      case _ => value +: lifetime
    }
  }

  private def column(stored: StoredType, name: String)(view: StoredEntry => InputView): Column =
    field(name, stored.dataType) -> (entry => stored.read(view(entry)))

  override protected def columns: Seq[StructField] = own.map(_._1)

  override def rows(
      state: PartitionState,
      partition: Int,
      scratch: Path,
      later: AutoCloseable => Unit
  ): Iterator[InternalRow] = {
    LocalFolders.write(scratch)(state.backend.snapshot(_): Unit)
    val keySerializer = new UnsafeRowSerializer(keys)
    reading(scratch, later)(StateEntries.of(_, s"Partition $partition", this.state.name)).map { entry =>
      val key = keySerializer.deserialize(entry.key)
      index = if (key == last) index + 1 else 0
      last = key
      row((key +: own.map { case (_, read) => read(entry) }) :+ partition: _*)
    }
  }

  private def expiry(entry: StoredEntry): Any =
    if (state.ttl == 0 || entry.timestamp == StateClock.Unknown) null
    else {
      val end = entry.timestamp + state.ttl
      shownMicros(if (end < entry.timestamp) Long.MaxValue else end)
    }
}

/** One row for each timer of the function, valid until the next one. */
private final class TimerLayout(override val keys: StructType) extends StoredLayout {
  override protected def columns: Seq[StructField] =
    Seq(field("time_domain", StringType), field("timestamp", TimestampType), field("epoch_ms", LongType))

  /** Writes the timers out, as their store is read by callbacks and they may be many. */
  override def rows(
      state: PartitionState,
      partition: Int,
      scratch: Path,
      later: AutoCloseable => Unit
  ): Iterator[InternalRow] = {
    val serializer = new SparkRowSerializer(schema.length).newInstance()
    val toUnsafe = UnsafeProjection.create(schema)
    LocalFolders.write(scratch) { file =>
      val out = serializer.serializeStream(file)
      Seq(TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME).foreach { kind =>
        val shown = UTF8String.fromString(InitialState.nameOf(kind))
        state.timers.forEachTimer(kind) { timer =>
          if (!WaitingRows.standsForRows(timer)) {
            val told = row(timer.key, shown, shownMicros(timer.timestamp), timer.timestamp, partition)
            out.writeValue(toUnsafe(told)): Unit
          }
        }
      }
      out.flush()
    }
    reading(scratch, later) { file =>
      serializer.deserializeStream(file).asKeyValueIterator.map(_._2.asInstanceOf[InternalRow])
    }
  }
}
