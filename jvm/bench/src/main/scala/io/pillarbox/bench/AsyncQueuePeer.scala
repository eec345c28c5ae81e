package io.pillarbox.bench

import io.pillarbox.async.queue.{
  OrderedStreamElementQueue,
  StreamElementQueue,
  StreamElementQueueEntry,
  UnorderedStreamElementQueue
}
import java.util

import org.apache.flink.streaming.api.functions.async.ResultFuture
import org.apache.flink.streaming.api.operators.TimestampedCollector
import org.apache.flink.streaming.api.operators.async.queue.{
  OrderedStreamElementQueue => FlinkOrdered,
  UnorderedStreamElementQueue => FlinkUnordered
}
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord

/** A queue of elements in flight. Records are known by the slot that the benchmark keeps them in. */
trait AsyncQueuePeer {
  def put(slot: Int): Unit
  def complete(slot: Int): Unit
  def emitCompleted(): Unit
  def emitted: Long
}

object AsyncQueuePeer {
  private val Row = java.lang.Long.valueOf(7)
  private val Rows = util.Collections.singletonList(Row)

  def of(name: String, ordered: Boolean, slots: Int, capacity: Int): AsyncQueuePeer =
    if (name == "flink") new OfFlink(ordered, slots, capacity) else new OfPillarbox(ordered, slots, capacity)

  private final class OfFlink(ordered: Boolean, slots: Int, capacity: Int) extends AsyncQueuePeer {
    private val queue =
      if (ordered) new FlinkOrdered[java.lang.Long](capacity)
      else new FlinkUnordered[java.lang.Long](capacity)
    private val futures = new Array[ResultFuture[java.lang.Long]](slots)
    private val output = new FlinkOutput
    private val collector = new TimestampedCollector[java.lang.Long](output)

    override def put(slot: Int): Unit =
      futures(slot) = queue.tryPut(new StreamRecord[java.lang.Long](Row, 1L)).get
    override def complete(slot: Int): Unit = futures(slot).complete(Rows)
    override def emitCompleted(): Unit = while (queue.hasCompletedElements)
      queue.emitCompletedElement(collector)
    override def emitted: Long = output.count
  }

  private final class OfPillarbox(ordered: Boolean, slots: Int, capacity: Int) extends AsyncQueuePeer {
    private type Entry = StreamElementQueueEntry[java.lang.Long, java.lang.Long]
    private val queue: StreamElementQueue[java.lang.Long, java.lang.Long] =
      if (ordered) new OrderedStreamElementQueue(capacity) else new UnorderedStreamElementQueue(capacity)
    private val entries = new Array[Entry](slots)
    private val output = new PillarboxOutput

    override def put(slot: Int): Unit = {
      val entry: Entry = new StreamElementQueueEntry(Row, 1L)
      if (!queue.tryPut(entry)) throw new IllegalStateException("full")
      entries(slot) = entry
    }
    override def complete(slot: Int): Unit = {
      entries(slot).setResults(Rows)
      queue.complete(entries(slot))
    }
    override def emitCompleted(): Unit = while (queue.hasCompletedElements) queue.emitCompletedElement(output)
    override def emitted: Long = output.count
  }
}
