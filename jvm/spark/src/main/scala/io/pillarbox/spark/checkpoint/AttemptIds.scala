package io.pillarbox.spark.checkpoint

import org.apache.spark.SparkContext
import org.apache.spark.util.AccumulatorV2

/**
 * By partition, the ids of the attempts whose tasks Spark has taken in a micro-batch.
 *
 * @param keepsFirst
 *   whether of several attempts of a partition the first that Spark hears of counts, else the last
 */
private[pillarbox] final class AttemptIds private (keepsFirst: Boolean)
    extends AccumulatorV2[(Int, String), Map[Int, String]] {
  @volatile private var ids = Map.empty[Int, String]

  override def isZero: Boolean = ids.isEmpty

  override def copy(): AttemptIds = {
    val copy = new AttemptIds(keepsFirst)
    copy.ids = ids
    copy
  }

  override def reset(): Unit = ids = Map.empty

  override def add(id: (Int, String)): Unit = if (!keepsFirst || !ids.contains(id._1)) ids += id

  override def merge(other: AccumulatorV2[(Int, String), Map[Int, String]]): Unit = other.value.foreach(add)

  override def value: Map[Int, String] = ids
}

private[pillarbox] object AttemptIds {
  def register(sc: SparkContext, keepsFirst: Boolean): AttemptIds = {
    val ids = new AttemptIds(keepsFirst)
    sc.register(ids)
    ids
  }
}
