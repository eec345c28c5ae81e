package io.pillarbox.timer

import java.io.{InputStream, OutputStream}

import scala.util.Using

import io.pillarbox.api.{InputView, OutputView, TypeSerializer}
import io.pillarbox.state.changelog._

/**
 * Timers on a stream, in the form of state's ([[StateStreamFormat]]): a "state" for each kind, by its place,
 * in whose records the timer's bytes are the key, and the value is empty. Heap and RocksDB queues write and
 * read the same bytes. A snapshot is a log that only adds.
 */
private[timer] final class TimerLog[K](keySerializer: TypeSerializer[K], stores: Seq[TimerStore[K]]) {
  import TimerLog._

  def writeSnapshot(out: OutputStream): Unit = write(out, isSnapshot = true) { (store, record) =>
    val serializer = new TimerSerializer(store.timerType)
    val bytes = new OutputView(64)
    Using.resource(store.iterator)(_.foreach { timer =>
      bytes.clear()
      serializer.serialize(timer, bytes)
      record(bytes.array, 0, bytes.length, isAdded = true)
    })
  }

  def writeChanges(out: OutputStream): Unit =
    write(out, isSnapshot = false)((store, record) => store.changes.forEach(record))

  /**
   * @param keeps true for the keys whose timers are taken; null for all
   * @throws io.pillarbox.state.StateRestoreException if anything is wrong with it
   */
  def read(in: InputStream, source: String, keeps: K => Boolean): Unit = {
    val added = stores.map(new Additions(_, keeps))
    new StateStreamReader(in, source).read(_.checkKeys(source, keySerializer)) { block =>
      added(block.state).take(block.cursor)
    }
    added.foreach(_.flush())
  }

  private def write(out: OutputStream, isSnapshot: Boolean)(
      content: (TimerStore[K], TimerChange) => Unit
  ): Unit = {
    val writer = new StateStreamWriter(out, StreamHeader(isSnapshot, 0L, keySerializer.snapshot, Nil))
    val record: TimerChange = (bytes, offset, length, isAdded) =>
      writer.record(bytes, offset, length, if (isAdded) NoValue else null, 0, 0)
    stores.zipWithIndex.foreach { case (store, id) =>
      writer.beginState(id)
      content(store, record)
    }
    writer.finish(): Unit
  }

  /** Adds timers in bulk, and removes them one by one, in the order of the log. */
  private final class Additions(store: TimerStore[K], keeps: K => Boolean) {
    private val serializer = new TimerSerializer(store.timerType)
    private val view = new InputView
    private val waiting = Vector.newBuilder[Timer[K]]
    private var count = 0

    def take(records: RecordCursor): Unit = while (records.next()) {
      val timer =
        serializer.deserialize(view.wrap(records.array, records.keyOffset, records.keyLength))
      if (keeps == null || keeps(timer.key)) {
        if (records.isPut) add(timer)
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
  private val NoValue = Array.emptyByteArray

  /** Bounds the memory of a restore into RocksDB; a heap builds its order once for so many. */
  private final val BulkSize = 1 << 16
}
