package io.pillarbox.spark.inspect

import io.pillarbox.api.StateDescriptor
import io.pillarbox.operator.WaitingRows
import io.pillarbox.spark.base.PillarboxConf
import io.pillarbox.spark.state.InitialState
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.{DataFrame, SparkSession}

/** Makes DataFrames of stored state. On the driver. */
private[pillarbox] object StateReader {

  /**
   * The entries of one state, or the timers, of one version: read when the DataFrame is, a task for each
   * partition.
   *
   * @param operator
   *   its id
   * @throws IllegalArgumentException
   *   if there is no such state
   */
  def read(
      session: SparkSession,
      checkpoint: String,
      operator: Long,
      name: String,
      version: Long
  ): DataFrame = {
    val catalog = new CheckpointCatalog(session, checkpoint)
    val note = catalog.note(operator)
    val layout =
      if (name == InitialState.Timers) new TimerLayout(note.keys)
      else stateLayout(catalog, operator, name, version)
    val partitions = (0 until note.partitions).map { partition =>
      StoredPartition(
        partition,
        catalog.folderOf(operator, partition).path.toString,
        catalog.version(operator, partition, version)
      )
    }
    val rows = new StoredRowsRDD(
      session.sparkContext,
      partitions,
      layout,
      SparkAdapter.broadcastHadoopConf(session),
      PillarboxConf.RocksDBMemory.read(SparkAdapter.sqlConf(session))
    )
    SparkAdapter.ofRows(session, rows, layout.schema)
  }

  private def stateLayout(
      catalog: CheckpointCatalog,
      operator: Long,
      name: String,
      version: Long
  ): StoredLayout = {
    val states = catalog.states(operator, version)
    val state = states
      .find(_.name == name)
      .getOrElse(
        throw new IllegalArgumentException(
          s"There is no state '$name', only ${states.map(_.name).mkString(", ")}"
        )
      )
    val keys = catalog.note(operator).keys
    if (name == WaitingRows.StateName) new WaitingLayout(keys, state)
    else
      state.kind match {
        case StateDescriptor.Kind.LIST => new ListLayout(keys, state)
        case StateDescriptor.Kind.MAP => new MapLayout(keys, state)
        case _ => new ValueLayout(keys, state)
      }
  }
}
