package org.apache.spark.sql.pillarbox

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, TransformWithStateInPandas}
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.apache.spark.sql.execution.streaming
import org.apache.spark.sql.execution.streaming.state.{StateStoreCoordinatorRef, StateStoreProviderId}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.Trigger

/** The classes and methods that came or moved with Spark 4.1, for Spark 4.0. */
object Spark41 {
  type CheckpointFileManager = streaming.CheckpointFileManager
  val CheckpointFileManager: streaming.CheckpointFileManager.type = streaming.CheckpointFileManager
  type FileSystemBasedCheckpointFileManager = streaming.FileSystemBasedCheckpointFileManager
  type OffsetSeqMetadata = streaming.OffsetSeqMetadata

  type StateStoreWriter = streaming.StateStoreWriter
  type WatermarkSupport = streaming.WatermarkSupport
  type StatefulOperatorStateInfo = streaming.StatefulOperatorStateInfo
  val StatefulOperatorStateInfo: streaming.StatefulOperatorStateInfo.type =
    streaming.StatefulOperatorStateInfo
  type StatefulOpStateStoreCheckpointInfo = streaming.StatefulOpStateStoreCheckpointInfo
  val StatefulOpStateStoreCheckpointInfo: streaming.StatefulOpStateStoreCheckpointInfo.type =
    streaming.StatefulOpStateStoreCheckpointInfo
  type StatefulOperatorCustomMetric = streaming.StatefulOperatorCustomMetric
  type StatefulOperatorCustomSumMetric = streaming.StatefulOperatorCustomSumMetric
  val StatefulOperatorCustomSumMetric: streaming.StatefulOperatorCustomSumMetric.type =
    streaming.StatefulOperatorCustomSumMetric
  val StatefulOperatorPartitioning: streaming.StatefulOperatorPartitioning.type =
    streaming.StatefulOperatorPartitioning
  type StreamingDeduplicateExec = streaming.StreamingDeduplicateExec
  type StateStoreSaveExec = streaming.StateStoreSaveExec
  type SessionWindowStateStoreSaveExec = streaming.SessionWindowStateStoreSaveExec

  type IncrementalExecution = streaming.IncrementalExecution
  type MicroBatchExecution = streaming.MicroBatchExecution
  val MicroBatchExecution: streaming.MicroBatchExecution.type = streaming.MicroBatchExecution
  type MicroBatchExecutionContext = streaming.MicroBatchExecutionContext
  type StreamExecution = streaming.StreamExecution
  val StreamExecution: streaming.StreamExecution.type = streaming.StreamExecution
  type StreamingQueryWrapper = streaming.StreamingQueryWrapper
  type TriggerExecutor = streaming.TriggerExecutor
  val WatermarkPropagator: streaming.WatermarkPropagator.type = streaming.WatermarkPropagator
  type WatermarkTracker = streaming.WatermarkTracker
  val MinWatermark: streaming.MinWatermark.type = streaming.MinWatermark

  /** There is no real-time mode. */
  def isRealTime(trigger: Trigger): Boolean = false

  def isRealTime(scan: StreamingDataSourceV2ScanRelation): Boolean = false

  /** True if a node is `transformWithState` of Python. */
  def isPythonWithState(plan: LogicalPlan): Boolean = plan.isInstanceOf[TransformWithStateInPandas]

  /** There is no `current_time()`. */
  def isCurrentTime(expression: Expression): Boolean = false

  /** Spark does not check that all partitions have committed. */
  def reportsCommits(conf: SQLConf): Boolean = false

  def reportCommit(coordinator: StateStoreCoordinatorRef, id: StateStoreProviderId, version: Long): Unit = ()

  /** Spark does not watch for late snapshots. */
  def reportSnapshot(coordinator: StateStoreCoordinatorRef, id: StateStoreProviderId, version: Long): Unit =
    ()
}
