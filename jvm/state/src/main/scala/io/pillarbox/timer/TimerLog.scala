package io.pillarbox.timer

import java.io.{DataInputStream, DataOutputStream, EOFException, InputStream, OutputStream}
import java.util.zip.{CRC32C, CheckedInputStream, CheckedOutputStream}

import scala.util.Using

import io.pillarbox.api.{Compatibility, InputView, OutputView, SerializerSnapshot, TimeDomain, TypeSerializer}
import io.pillarbox.state.StateRestoreException

/**
 * Timers on a stream: a header (magic, format version, key type), a record for each
 * timer (its change, its bytes), an end mark, the number of records and a CRC-32C of everything before.
 *
 * A snapshot is a log that only adds. Heap and RocksDB queues write and read the same bytes.
 */
private[timer] final class TimerLog[K](keySerializer: TypeSerializer[K]) {
  import TimerLog._

  def writeSnapshot(out: OutputStream, eventTime: TimerStore[K], processingTime: TimerStore[K]): Unit =
    write(out) { record =>
      val bytes = new OutputView(64)
      for (store <- Seq(eventTime, processingTime)) {
        val serializer = new TimerSerializer(store.timerType)
        val added = record(store.timerType.kind)
        Using.resource(store.iterator)(_.foreach { timer =>
          bytes.clear()
          serializer.serialize(timer, bytes)
          added(bytes.array, 0, bytes.length, true)
        })
      }
    }

  def writeChanges(out: OutputStream, eventTime: TimerStore[K], processingTime: TimerStore[K]): Unit =
    write(out)(record =>
      Seq(eventTime, processingTime).foreach(s => s.changes.forEach(record(s.timerType.kind)))
    )

  /**
   * @param keeps true for the keys whose timers are taken; null for all
   * @throws StateRestoreException if anything is wrong with it
   */
  def read(
      in: InputStream,
      source: String,
      eventTime: TimerStore[K],
      processingTime: TimerStore[K],
      keeps: K => Boolean
  ): Unit = {
    val checked = new CheckedInputStream(in, new CRC32C)
    val data = new DataInputStream(checked)
    try {
      checkHeader(data, source)
      val added = Seq(eventTime, processingTime).map(new Additions(_, keeps))
      val records = readRecords(data, added)
      added.foreach(_.flush())
      checkEnd(data, checked, records, source)
    } catch {
      case cut: EOFException => throw corrupt(source, "it ends too early", cut)
      case damaged: IndexOutOfBoundsException => throw corrupt(source, "a timer can't be read", damaged)
    }
  }

  private def write(out: OutputStream)(content: (TimeDomain => TimerChange) => Unit): Unit = {
    val checked = new CheckedOutputStream(out, new CRC32C)
    val data = new DataOutputStream(checked)
    writeHeader(data)
    var records = 0L
    content(kind =>
      (bytes, offset, length, isAdded) => {
        data.writeByte(1 + kind.ordinal * 2 + (if (isAdded) 0 else 1))
        data.writeInt(length)
        data.write(bytes, offset, length)
        records += 1
      }
    )
    data.writeByte(EndMark)
    data.writeLong(records)
    data.writeInt(checked.getChecksum.getValue.toInt)
    data.flush()
  }

  private def writeHeader(data: DataOutputStream): Unit = {
    val keyType = new OutputView(64)
    keySerializer.snapshot.writeTo(keyType)
    data.writeInt(Magic)
    data.writeShort(FormatVersion)
    data.writeInt(keyType.length)
    data.write(keyType.array, 0, keyType.length)
  }

  private def checkHeader(data: DataInputStream, source: String): Unit = {
    val magic = data.readInt()
    if (magic != Magic) throw corrupt(source, f"it begins with $magic%08x, not with $Magic%08x", null)
    val version = data.readShort().toInt
    if (version != FormatVersion)
      throw StateRestoreException.otherFormat(s"The timers of $source", version, FormatVersion)
    checkKeyType(SerializerSnapshot.readFrom(new InputView(readBytes(data))), source)
  }

  private def checkKeyType(written: SerializerSnapshot, source: String): Unit =
    if (!keySerializer.compatibilityWith(written).isInstanceOf[Compatibility.AsIs[_]])
      throw new StateRestoreException(
        "TIMERS_KEY_TYPE_DIFFERS",
        s"$source has timers of keys of type $written, now they are ${keySerializer.snapshot}: " +
          "the type of the key can't change while there are timers"
      )

  private def readRecords(data: DataInputStream, added: Seq[Additions]): Long = {
    val input = new InputView
    var records = 0L
    var mark = data.readUnsignedByte()
    while (mark != EndMark) {
      if (mark > 4) throw new IndexOutOfBoundsException(s"A record of unknown kind $mark")
      val bytes = readBytes(data)
      input.wrap(bytes, 0, bytes.length)
      added((mark - 1) / 2).take(input, isAdded = mark % 2 == 1)
      records += 1
      mark = data.readUnsignedByte()
    }
    records
  }

  private def checkEnd(
      data: DataInputStream,
      checked: CheckedInputStream,
      records: Long,
      source: String
  ): Unit = {
    val written = data.readLong()
    if (written != records) throw corrupt(source, s"it has $records timers and should have $written", null)
    val computed = checked.getChecksum.getValue.toInt
    val stored = data.readInt()
    if (stored != computed) {
      throw corrupt(source, f"its checksum is $computed%08x and should be $stored%08x", null)
    }
  }

  /** Adds timers in bulk, and removes them one by one, in the order of the log. */
  private final class Additions(store: TimerStore[K], keeps: K => Boolean) {
    private val serializer = new TimerSerializer(store.timerType)
    private val waiting = Vector.newBuilder[Timer[K]]
    private var count = 0

    def take(input: InputView, isAdded: Boolean): Unit = {
      val timer = serializer.deserialize(input)
      if (keeps == null || keeps(timer.key)) {
        if (isAdded) add(timer)
        else {
          flush()
          store.remove(timer)
        }
      }
    }

    def flush(): Unit = if (count > 0) {
      store.addAll(waiting.result())
      waiting.clear()
      count = 0
    }

    private def add(timer: Timer[K]): Unit = {
      waiting += timer
      count += 1
      if (count == BulkSize) flush()
    }
  }
}

private object TimerLog {
  private final val Magic = 0x50425431
  private final val FormatVersion = 2
  private final val EndMark = 0

  /** Bounds the memory of a restore into RocksDB; a heap builds its order once for so many. */
  private final val BulkSize = 1 << 16

  /** The largest timer; a longer record is damaged. */
  private final val MaxTimerBytes = 1 << 28

  private def readBytes(data: DataInputStream): Array[Byte] = {
    val length = data.readInt()
    if (length < 0 || length > MaxTimerBytes) {
      throw new IndexOutOfBoundsException(s"A record of $length bytes")
    }
    val bytes = data.readNBytes(length)
    if (bytes.length < length) throw new EOFException(s"${bytes.length} of $length bytes")
    bytes
  }

  private def corrupt(source: String, what: String, cause: Throwable): StateRestoreException =
    new StateRestoreException(
      "TIMERS_CORRUPTED",
      s"The timers in $source are damaged: $what. Restore an older version",
      cause
    )
}
