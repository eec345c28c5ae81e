package io.pillarbox.spark.plan

import java.util.{LinkedHashMap, Map => JMap}

import scala.collection.mutable

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.expressions.ExprId
import org.apache.spark.sql.pillarbox.{ForeachBatch, MicroBatches}

/**
 * Numbers the calls in expressions that are made in a `foreachBatch`, those of one signature in the order in
 * which actions run them. A function that runs the same actions, one after the other, so gets the same
 * numbers when Spark runs the micro-batch again. Any thread of the driver.
 */
private object ForeachBatchCalls {

  private final class Numbers(val batch: ForeachBatch) {
    private val known = mutable.Map.empty[String, mutable.Map[ExprId, Int]]

    /** Returns the number of `call`. The others of its plan get theirs with it, in their order. */
    def of(signature: String, call: ExprId, inPlan: Seq[ExprId]): Int = synchronized {
      val numbers = known.getOrElseUpdate(signature, mutable.Map.empty)
      // Parts of a plan run in any order, so all get their numbers when the first one runs.
      (inPlan :+ call).foreach(one => numbers.getOrElseUpdate(one, numbers.size))
      numbers(call)
    }
  }

  private final val MostQueries = 1000

  /** The last micro-batch of each query that had one lately. */
  private val current = new LinkedHashMap[String, Numbers](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[String, Numbers]): Boolean = size > MostQueries
  }

  /** Returns the number of the call that `node` makes. On the thread that runs it. */
  def number(node: AsyncIO, batch: ForeachBatch, context: SparkContext): Int = {
    val signature = node.spec.signature
    val inPlan = MicroBatches
      .planOfAction(context)
      .toSeq
      .flatMap(_.collectWithSubqueries {
        case other: AsyncIO if other.spec.signature == signature => other.results.head.exprId
      })
    val numbers = current.synchronized {
      current.compute(
        batch.query,
        (_, last) => if (last != null && last.batch == batch) last else new Numbers(batch)
      )
    }
    numbers.of(signature, node.results.head.exprId, inPlan)
  }
}
