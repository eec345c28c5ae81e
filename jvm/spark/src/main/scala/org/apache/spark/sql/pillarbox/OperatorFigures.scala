package org.apache.spark.sql.pillarbox

import com.fasterxml.jackson.annotation.JsonIgnore
import org.apache.spark.status.KVUtils.KVIndexParam
import org.apache.spark.util.kvstore.KVIndex

/**
 * The figures of one operator, as the stores of Spark's UI and of its history server keep them.
 *
 * @param id its number in the application
 * @param kind the name of the plan's node
 * @param query the id of the streaming query; empty for a batch
 * @param run the id of its last run
 * @param execution the last execution that had the operator, as Spark's UI numbers them
 * @param runs the number of executions; those of a streaming query are its micro-batches
 * @param updated the time of the last change, ms since the epoch
 * @param metrics the names of the operator's metrics
 * @param types their kinds, as Spark calls them, in the same order
 */
private[spark] final class OperatorFigures(
    @KVIndexParam val id: Long,
    val kind: String,
    val name: String,
    val query: String,
    val run: String,
    val execution: Long,
    val runs: Long,
    val updated: Long,
    val metrics: Array[String],
    val types: Array[String],
    val partitions: Array[PartitionFigures]
) {
  @JsonIgnore @KVIndex("updated")
  def updatedIndex: Long = updated

  /** The values of one of the operator's metrics, in the partitions that have counted. */
  def valuesOf(metric: String): Array[Long] =
    partitions.map(_.values(metrics.indexOf(metric))).filter(_ >= 0)

  /** True if it is of a streaming query; those that were stored by earlier versions have no run. */
  @JsonIgnore
  def hasRun: Boolean = run != null && run.nonEmpty

  def typeOf(metric: String): String = types(metrics.indexOf(metric))

  /** The same operator with one partition. */
  def only(one: PartitionFigures): OperatorFigures =
    new OperatorFigures(id, kind, name, query, run, execution, runs, updated, metrics, types, Array(one))
}

/** @param values one for each metric of the operator; negative where there is none */
private[spark] final class PartitionFigures(val partition: Int, val values: Array[Long])
