package io.pillarbox.queue

import java.util.function.ToIntFunction
import java.util.{Collection => JCollection, IdentityHashMap, Set => JSet}

import scala.jdk.CollectionConverters._

import io.pillarbox.api.{InputView, OutputView}
import io.pillarbox.testing.JUnitSuite
import org.apache.flink.runtime.state.InternalPriorityQueueTestBase
import org.apache.flink.runtime.state.InternalPriorityQueueTestBase.{TestElement => FlinkElement}
import org.apache.flink.runtime.state.{InternalPriorityQueue => FlinkQueue}
import org.apache.flink.runtime.state.{KeyGroupRangeAssignment, KeyGroupedInternalPriorityQueue => FlinkKeyed}
import org.apache.flink.util.{CloseableIterator => FlinkIterator}

/** Flink's own `InternalPriorityQueueTestBase` (flink-runtime, classifier tests) over our queues. */
class FlinkQueueSuite extends JUnitSuite {
  testsOf(classOf[HeapSetUnderFlinkTest])
  testsOf(classOf[PartitionedUnderFlinkTest])
  testsOf(classOf[BatchUnderFlinkTest])
  testsOf(classOf[CachingUnderFlinkTest])
}

/** Flink's element in our clothes. */
final class Wrapped(val flink: FlinkElement) extends Prioritized {
  override def priority: Long = flink.getPriority
  override def equals(other: Any): Boolean = other match {
    case that: Wrapped => flink == that.flink
    case _ => false
  }
  override def hashCode: Int = flink.hashCode
  override def toString: String = flink.toString
}

/** Our queue in Flink's clothes. The same Flink object is always the same object of ours. */
final class FlinkAdapter(queue: InternalPriorityQueue[Wrapped]) extends FlinkKeyed[FlinkElement] {
  private val wrappers = new IdentityHashMap[FlinkElement, Wrapped]

  private def wrap(element: FlinkElement): Wrapped = wrappers.computeIfAbsent(element, new Wrapped(_))

  private def unwrap(element: Wrapped): FlinkElement = if (element == null) null else element.flink

  override def poll(): FlinkElement = unwrap(queue.poll())
  override def peek(): FlinkElement = unwrap(queue.peek())
  override def add(element: FlinkElement): Boolean = queue.add(wrap(element))
  override def remove(element: FlinkElement): Boolean = queue.remove(wrap(element))
  override def isEmpty: Boolean = queue.isEmpty
  override def size: Int = queue.size

  override def addAll(elements: JCollection[_ <: FlinkElement]): Unit =
    queue.addAll(if (elements == null) null else elements.asScala.map(wrap))

  override def iterator: FlinkIterator[FlinkElement] = {
    val elements = queue.iterator
    new FlinkIterator[FlinkElement] {
      override def hasNext: Boolean = elements.hasNext
      override def next(): FlinkElement = unwrap(elements.next())
      override def close(): Unit = elements.close()
    }
  }

  override def getSubsetForKeyGroup(keyGroup: Int): JSet[FlinkElement] =
    queue
      .asInstanceOf[KeyGroupedInternalPriorityQueue[Wrapped]]
      .subsetForKeyGroup(keyGroup)
      .map(unwrap)
      .toSet
      .asJava
}

abstract class UnderFlinkTest extends InternalPriorityQueueTestBase {
  private val flinkRange = InternalPriorityQueueTestBase.KEY_GROUP_RANGE
  protected val range: KeyGroupRange = KeyGroupRange(flinkRange.getStartKeyGroup, flinkRange.getEndKeyGroup)
  protected val groupOf: ToIntFunction[Wrapped] =
    e => KeyGroupRangeAssignment.assignToKeyGroup(e.flink.getKey, flinkRange.getNumberOfKeyGroups)

  protected def queue(capacity: Int): InternalPriorityQueue[Wrapped]

  override protected def newPriorityQueue(capacity: Int): FlinkQueue[FlinkElement] =
    new FlinkAdapter(queue(capacity))

  override protected def testSetSemanticsAgainstDuplicateElements: Boolean = true
}

class HeapSetUnderFlinkTest extends UnderFlinkTest {
  override protected def queue(capacity: Int) =
    new HeapPriorityQueueSet[Wrapped](range, groupOf, null, capacity)
}

class PartitionedUnderFlinkTest extends UnderFlinkTest {
  override protected def queue(capacity: Int) = new KeyGroupPartitionedPriorityQueue[Wrapped](
    range,
    groupOf,
    _ => new HeapElementSet[Wrapped](null, capacity)
  )
}

class BatchUnderFlinkTest extends UnderFlinkTest {
  override protected def queue(capacity: Int) =
    new HeapElementSet[Wrapped](null, capacity)
}

class CachingUnderFlinkTest extends UnderFlinkTest {
  private val serializer = new OrderPreservingSerializer[Wrapped] {
    override def serialize(element: Wrapped, out: OutputView): Unit = {
      OrderPreserving.writeLong(element.priority, out)
      OrderPreserving.writeLong(element.flink.getKey, out)
    }
    override def deserialize(in: InputView): Wrapped = {
      val priority = OrderPreserving.readLong(in)
      new Wrapped(new FlinkElement(OrderPreserving.readLong(in), priority))
    }
  }

  override protected def queue(capacity: Int) = {
    val store = new MemoryOrderedByteStore
    new KeyGroupPartitionedPriorityQueue[Wrapped](
      range,
      groupOf,
      group => new RocksDBCachingPriorityQueueSet(group, serializer, store, 32)
    )
  }
}
