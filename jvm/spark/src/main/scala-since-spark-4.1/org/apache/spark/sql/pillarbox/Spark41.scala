package org.apache.spark.sql.pillarbox

import org.apache.spark.sql.catalyst.expressions.{CurrentTime, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, TransformWithStateInPySpark}
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.apache.spark.sql.execution.streaming.state.{StateStoreCoordinatorRef, StateStoreProviderId}
import org.apache.spark.sql.execution.streaming.{RealTimeTrigger, checkpointing, operators, runtime}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.Trigger

/** The classes and methods that came or moved with Spark 4.1. */
object Spark41 {
  type CheckpointFileManager = checkpointing.CheckpointFileManager
  val CheckpointFileManager: checkpointing.CheckpointFileManager.type = checkpointing.CheckpointFileManager
  type FileSystemBasedCheckpointFileManager = checkpointing.FileSystemBasedCheckpointFileManager
  type OffsetSeqMetadata = checkpointing.OffsetSeqMetadata

  type StateStoreWriter = operators.stateful.StateStoreWriter
  type WatermarkSupport = operators.stateful.WatermarkSupport
  type StatefulOperatorStateInfo = operators.stateful.StatefulOperatorStateInfo
  val StatefulOperatorStateInfo: operators.stateful.StatefulOperatorStateInfo.type =
    operators.stateful.StatefulOperatorStateInfo
  type StatefulOpStateStoreCheckpointInfo = operators.stateful.StatefulOpStateStoreCheckpointInfo
  val StatefulOpStateStoreCheckpointInfo: operators.stateful.StatefulOpStateStoreCheckpointInfo.type =
    operators.stateful.StatefulOpStateStoreCheckpointInfo
  type StatefulOperatorCustomMetric = operators.stateful.StatefulOperatorCustomMetric
  type StatefulOperatorCustomSumMetric = operators.stateful.StatefulOperatorCustomSumMetric
  val StatefulOperatorCustomSumMetric: operators.stateful.StatefulOperatorCustomSumMetric.type =
    operators.stateful.StatefulOperatorCustomSumMetric
  val StatefulOperatorPartitioning: operators.stateful.StatefulOperatorPartitioning.type =
    operators.stateful.StatefulOperatorPartitioning
  type StreamingDeduplicateExec = operators.stateful.StreamingDeduplicateExec
  type StateStoreSaveExec = operators.stateful.StateStoreSaveExec
  type SessionWindowStateStoreSaveExec = operators.stateful.SessionWindowStateStoreSaveExec

  type IncrementalExecution = runtime.IncrementalExecution
  type MicroBatchExecution = runtime.MicroBatchExecution
  val MicroBatchExecution: runtime.MicroBatchExecution.type = runtime.MicroBatchExecution
  type MicroBatchExecutionContext = runtime.MicroBatchExecutionContext
  type StreamExecution = runtime.StreamExecution
  val StreamExecution: runtime.StreamExecution.type = runtime.StreamExecution
  type StreamingQueryWrapper = runtime.StreamingQueryWrapper
  type TriggerExecutor = runtime.TriggerExecutor
  val WatermarkPropagator: runtime.WatermarkPropagator.type = runtime.WatermarkPropagator
  type WatermarkTracker = runtime.WatermarkTracker
  val MinWatermark: runtime.MinWatermark.type = runtime.MinWatermark

  def isRealTime(trigger: Trigger): Boolean = trigger.isInstanceOf[RealTimeTrigger]

  /** True if a source is read in real-time mode. */
  def isRealTime(scan: StreamingDataSourceV2ScanRelation): Boolean =
    scan.relation.realTimeModeDuration.isDefined

  /** True if a node is `transformWithState` of Python. */
  def isPythonWithState(plan: LogicalPlan): Boolean = plan.isInstanceOf[TransformWithStateInPySpark]

  def isCurrentTime(expression: Expression): Boolean = expression.isInstanceOf[CurrentTime]

  /** True if Spark checks that all partitions have committed. */
  def reportsCommits(conf: SQLConf): Boolean = conf.stateStoreCommitValidationEnabled

  def reportCommit(coordinator: StateStoreCoordinatorRef, id: StateStoreProviderId, version: Long): Unit =
    coordinator.reportStateStoreCommit(id, version)

  def reportSnapshot(coordinator: StateStoreCoordinatorRef, id: StateStoreProviderId, version: Long): Unit =
    coordinator.snapshotUploaded(id, version, System.currentTimeMillis): Unit
}
