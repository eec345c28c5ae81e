package org.apache.spark.sql.pillarbox

import org.apache.spark.sql.pillarbox.Spark41.MicroBatchExecution

/** Spark can't repartition state. */
private object AbandonedRepartition {
  def takeBack(query: MicroBatchExecution, hooks: QueryHooks): Unit = ()
}
