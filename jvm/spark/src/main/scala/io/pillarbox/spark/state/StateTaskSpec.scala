package io.pillarbox.spark.state

import com.fasterxml.jackson.databind.annotation.JsonDeserialize
import io.pillarbox.spark.base.SpecJson
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.StructType

/**
 * The description of a partition's state for its storage.
 *
 * @param operator its name
 * @param watermark the watermark of the micro-batch in milliseconds since 1970; `Long.MinValue` for none
 * @param batchTime processing time in milliseconds since 1970
 * @param metrics
 *   the operator's, of which those in [[StateTaskSpec]] and Spark's own of stateful operators are counted
 */
private[pillarbox] final case class StateTaskSpec(
    operator: String,
    storage: StateStorage,
    keySchema: StructType,
    watermark: Long,
    batchTime: Long,
    metrics: Map[String, SQLMetric]
)

private[pillarbox] object StateTaskSpec {
  val LoadMs = "stateLoadTimeMs"
  val CommitBytes = "commitBytes"
  val FileBytes = "stateFileBytes"
  val BackendReused = "numBackendsReused"
  val TimersWaiting = "numTimersWaiting"
  val NextEventTimer = "nextEventTimer"
  val NextProcessingTimer = "nextProcessingTimer"

  /** The names of the metrics of state, besides those of every stateful operator of Spark. */
  val metricDescriptions: Seq[(String, String)] = Seq(
    LoadMs -> "time to load state (ms)",
    CommitBytes -> "bytes written by commits",
    FileBytes -> "bytes of state in local files",
    BackendReused -> "number of backends found open",
    TimersWaiting -> "number of timers waiting"
  )
}

/** The place where an executor keeps state or timers. */
@JsonDeserialize(using = classOf[StorageKindReader])
private[pillarbox] sealed abstract class StorageKind(val name: String)

private[pillarbox] object StorageKind {
  case object Heap extends StorageKind("heap")
  case object RocksDB extends StorageKind("rocksdb")
}

private final class StorageKindReader
    extends SpecJson.Named[StorageKind](
      "Where state or timers are kept",
      StorageKind.Heap,
      StorageKind.RocksDB
    )(_.name)

/** The storage of the state of a partition in an executor, and of its timers. */
private[pillarbox] final case class StateStorage(state: StorageKind, timers: StorageKind)
