package io.pillarbox.queue

import java.util.function.ToIntFunction

import io.pillarbox.api.{InputView, OutputView}

/** Equal by key and priority, as timers are. */
final class TestElement(val key: Long, override val priority: Long) extends Prioritized {

  override def equals(other: Any): Boolean = other match {
    case that: TestElement => key == that.key && priority == that.priority
    case _ => false
  }

  override def hashCode: Int = java.lang.Long.hashCode(key) * 31 + java.lang.Long.hashCode(priority)

  override def toString: String = s"($key @ $priority)"
}

object TestElement {
  val MaxKeyGroups = 8
  val Groups: KeyGroupRange = KeyGroupRange(2, 5)

  def apply(key: Long, priority: Long): TestElement = new TestElement(key, priority)

  val GroupOf: ToIntFunction[TestElement] = element => groupOfKey(element.key)

  def groupOfKey(key: Long): Int = Math.floorMod(key * 0x9e3779b97f4a7c15L >> 32, MaxKeyGroups.toLong).toInt

  /** Keys of the partition that owns `Groups`, so that any element of them may be added. */
  val LocalKeys: IndexedSeq[Long] = (0L until 200L).filter(key => Groups.contains(groupOfKey(key)))

  val ForeignKey: Long = (0L until 200L).find(key => !Groups.contains(groupOfKey(key))).get

  val Serializer: OrderPreservingSerializer[TestElement] = new OrderPreservingSerializer[TestElement] {
    override def serialize(element: TestElement, out: OutputView): Unit = {
      OrderPreserving.writeLong(element.priority, out)
      OrderPreserving.writeLong(element.key, out)
    }

    override def deserialize(in: InputView): TestElement = {
      val priority = OrderPreserving.readLong(in)
      TestElement(OrderPreserving.readLong(in), priority)
    }
  }

  val Tie: java.util.Comparator[TestElement] = java.util.Comparator.comparingLong((e: TestElement) => e.key)
}
