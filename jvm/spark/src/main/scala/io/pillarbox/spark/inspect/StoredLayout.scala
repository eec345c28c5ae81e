package io.pillarbox.spark.inspect

import java.io.InputStream
import java.nio.file.{Files, Path}

import io.pillarbox.api.TimeDomain
import io.pillarbox.operator.WaitingRows
import io.pillarbox.spark.state.{InitialState, PartitionState, StoredType, UnsafeRowSerializer}
import io.pillarbox.state.StateClock
import io.pillarbox.state.changelog.{StateEntries, StoredEntry, StoredState}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
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
   */
  def rows(state: PartitionState, partition: Int, scratch: Path): Iterator[InternalRow]

  protected def field(name: String, dataType: DataType): StructField = StructField(name, dataType)

  protected def row(values: Any*): InternalRow = new GenericInternalRow(values.toArray)

  /** Converts milliseconds to Catalyst's timestamp; null if unknown or out of range. */
  protected def micros(ms: Long): Any =
    if (ms == StateClock.Unknown || ms > Long.MaxValue / 1000 || ms < Long.MinValue / 1000) null
    else ms * 1000
}

/** The entries of a state, read from a snapshot in the portable format, which all backends share. */
private sealed abstract class EntryLayout(state: StoredState) extends StoredLayout {
  @transient protected lazy val value: StoredType = StoredType.of(state.value)

  /** The times when the entry was written or renewed, and when it expires. */
  protected def lifetime: Seq[StructField] =
    Seq(field("timestamp", TimestampType), field("expires_at", TimestampType))

  protected def toRow(entry: StoredEntry, key: InternalRow, partition: Int): InternalRow

  override def rows(state: PartitionState, partition: Int, scratch: Path): Iterator[InternalRow] = {
    LocalFolders.write(scratch)(state.backend.snapshot(_): Unit)
    val keySerializer = new UnsafeRowSerializer(keys)
    val in: InputStream = Files.newInputStream(scratch)
    StateEntries.of(in, s"Partition $partition", this.state.name).map { entry =>
      toRow(entry, keySerializer.deserialize(entry.key), partition)
    }
  }

  protected def expiry(entry: StoredEntry): Any =
    if (state.ttlMs == 0 || entry.timestamp == StateClock.Unknown) null
    else {
      val end = entry.timestamp + state.ttlMs
      micros(if (end < entry.timestamp) Long.MaxValue else end)
    }
}

/** One row for each key, with its value or accumulator. */
private final class ValueLayout(override val keys: StructType, state: StoredState)
    extends EntryLayout(state) {
  override protected def columns: Seq[StructField] = Seq(field("value", value.dataType)) ++ lifetime

  override protected def toRow(entry: StoredEntry, key: InternalRow, partition: Int): InternalRow =
    row(key, value.read(entry.value), micros(entry.timestamp), expiry(entry), partition)
}

/** One row for each element, with its index in its list. */
private final class ListLayout(override val keys: StructType, state: StoredState) extends EntryLayout(state) {
  override protected def columns: Seq[StructField] =
    Seq(field("index", IntegerType), field("value", value.dataType)) ++ lifetime

  @transient private var last: InternalRow = _
  @transient private var index = 0

  override protected def toRow(entry: StoredEntry, key: InternalRow, partition: Int): InternalRow = {
    index = if (key == last) index + 1 else 0
    last = key
    row(key, index, value.read(entry.value), micros(entry.timestamp), expiry(entry), partition)
  }
}

/** One row for each entry of a map. */
private final class MapLayout(override val keys: StructType, state: StoredState) extends EntryLayout(state) {
  @transient private lazy val mapKey = StoredType.of(state.userKey.get)

  override protected def columns: Seq[StructField] =
    Seq(field("map_key", mapKey.dataType), field("value", value.dataType)) ++ lifetime

  override protected def toRow(entry: StoredEntry, key: InternalRow, partition: Int): InternalRow = row(
    key,
    mapKey.read(entry.userKey),
    value.read(entry.value),
    micros(entry.timestamp),
    expiry(entry),
    partition
  )
}

/** The rows of a time-sorted operator that wait for the watermark, with their time. */
private final class WaitingLayout(override val keys: StructType, state: StoredState)
    extends EntryLayout(state) {
  override protected def columns: Seq[StructField] =
    Seq(field("value", value.dataType), field("timestamp", TimestampType))

  override protected def toRow(entry: StoredEntry, key: InternalRow, partition: Int): InternalRow =
    row(key, value.read(entry.value), micros(WaitingRows.timeOf(entry.namespace)), partition)
}

/** One row for each timer of the function. */
private final class TimerLayout(override val keys: StructType) extends StoredLayout {
  override protected def columns: Seq[StructField] =
    Seq(field("time_domain", StringType), field("timestamp", TimestampType), field("epoch_ms", LongType))

  /** Gathers the timers in memory, as they are small and their store is read by callbacks. */
  override def rows(state: PartitionState, partition: Int, scratch: Path): Iterator[InternalRow] = {
    val found = new scala.collection.mutable.ArrayBuffer[InternalRow]
    Seq(TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME).foreach { kind =>
      val shown = UTF8String.fromString(InitialState.nameOf(kind))
      state.timers.forEachTimer(kind) { timer =>
        if (!WaitingRows.standsForRows(timer))
          found += row(timer.key, shown, micros(timer.timestamp), timer.timestamp, partition)
      }
    }
    found.iterator
  }
}
