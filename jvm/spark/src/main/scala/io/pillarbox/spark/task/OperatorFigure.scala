package io.pillarbox.spark.task

import java.util.function.LongSupplier

import scala.collection.mutable

import com.codahale.metrics.Gauge
import org.apache.spark.sql.pillarbox.ProcessMetrics

/**
 * A figure of all operators of one name in this process, in Spark's metrics system: what running tasks tell
 * when they are asked, and what is left of others. Any thread.
 *
 * @param isMost true if it is the largest of what running tasks tell, and not the sum
 */
private[pillarbox] final class OperatorFigure private (isMost: Boolean) extends Gauge[java.lang.Long] {
  private var left = 0L
  private val running = mutable.Set.empty[LongSupplier]

  override def getValue: java.lang.Long = synchronized {
    if (isMost) running.foldLeft(0L)((most, one) => math.max(most, one.getAsLong))
    else left + running.iterator.map(_.getAsLong).sum
  }

  def add(count: Long): Unit = synchronized(left += count)

  private def follow(figure: LongSupplier): Unit = synchronized(running += figure): Unit

  private def leave(figure: LongSupplier, last: Boolean): Unit = synchronized {
    if (running.remove(figure) && last) left += figure.getAsLong
  }
}

private[pillarbox] object OperatorFigure {

  /** Returns the figure of an operator; names of operators may have any characters. */
  def of(operator: String, figure: String, isMost: Boolean = false): OperatorFigure =
    ProcessMetrics
      .gauge(s"${operator.replaceAll("[^\\w-]", "_")}.$figure", new OperatorFigure(isMost))
      .asInstanceOf[OperatorFigure]

  /**
   * Asks a task for its figures until the result is closed, on any thread: a recent value is enough.
   *
   * @param counts by their names; their last values stay
   * @param present what there is at the moment, of which nothing stays
   * @param most the same, of which the largest counts and not the sum
   */
  def follow(
      operator: String,
      counts: Seq[(String, LongSupplier)],
      present: Seq[(String, LongSupplier)] = Nil,
      most: Seq[(String, LongSupplier)] = Nil
  ): AutoCloseable = {
    val followed = counts.map { case (name, figure) => (of(operator, name), figure, true) } ++
      present.map { case (name, figure) => (of(operator, name), figure, false) } ++
      most.map { case (name, figure) => (of(operator, name, isMost = true), figure, false) }
    followed.foreach { case (all, figure, _) => all.follow(figure) }
    () => followed.foreach { case (all, figure, stays) => all.leave(figure, stays) }
  }
}
