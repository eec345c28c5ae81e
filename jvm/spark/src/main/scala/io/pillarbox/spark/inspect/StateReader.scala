package io.pillarbox.spark.inspect

import io.pillarbox.spark.base.PillarboxConf
import io.pillarbox.spark.state.InitialState
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types.StructType

/**
 * The address of stored state. A look-up of something larger leaves out the fields that it does not need.
 *
 * @param operator the number of the operator
 * @param version the number of micro-batches that led to the state
 * @param name the name of the state, or [[InitialState.Timers]]
 */
private[pillarbox] final case class StateAddress(
    checkpoint: String,
    operator: Long = 0,
    version: Long = 0,
    name: String = ""
)

/** Reads the entries of one state, or the timers, of one version. On the driver. */
private[pillarbox] final case class StateReader(session: SparkSession, address: StateAddress) {
  import address._

  private lazy val catalog = new CheckpointCatalog(session, checkpoint)
  private lazy val metadata = catalog.metadata(operator)
  private lazy val parts = metadata.at(version).layout
  private lazy val layout =
    if (name == InitialState.Timers) new TimerLayout(metadata.keys) else stateLayout

  /** @throws IllegalArgumentException if there is no such state */
  def schema: StructType = layout.schema

  /** The rows, for which a task reads the state of each partition when it runs. */
  def rows: RDD[InternalRow] = {
    val partitions = (0 until parts.partitions).map { partition =>
      StoredPartition(partition, catalog.version(operator, partition, version))
    }
    new StoredRowsRDD(
      session.sparkContext,
      catalog.folderOf(operator).toString,
      parts,
      partitions,
      layout,
      SparkAdapter.broadcastHadoopConf(session),
      PillarboxConf.RocksDBMemory.readIfSet(SparkAdapter.sqlConf(session))
    )
  }

  private def stateLayout: StoredLayout = {
    val states = catalog.states(operator, version)
    val state = states
      .find(_.name == name)
      .getOrElse(
        throw new IllegalArgumentException(
          s"There is no state '$name', only ${states.map(_.name).mkString(", ")}"
        )
      )
    new EntryLayout(metadata.keys, state)
  }
}
