package org.apache.spark.sql.pillarbox

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.pillarbox.Spark41._
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._
import org.apache.spark.sql.{SparkSession, classic}
import org.slf4j.LoggerFactory

/**
 * Lets timers, and calls in flight, wake a restarted query that has no input. Spark asks only the plan of a
 * micro-batch that this run has executed whether another one is needed, so it would ask nobody before the
 * first one.
 *
 * The first micro-batch gets a predecessor whose plan answers from the checkpoint. The predecessor is removed
 * as soon as there is a micro-batch to run, which therefore is the first one with all its checks, as without
 * it. If the checkpoint can't be read there, a micro-batch runs, whose tasks read it. Where micro-batches
 * without data are disabled, Spark asks no predecessor, so there is none.
 *
 * A query is also refused here before it runs, if `hooks` throw, and is made to finish its micro-batches.
 * Written for Spark 4.2.
 */
final class RestartWakeUp private (session: classic.SparkSession, hooks: QueryHooks)
    extends StreamingQueryListener {

  /** Prepares the query. On its thread, before it begins. */
  override def onQueryStarted(event: QueryStartedEvent): Unit = session.streams.get(event.id) match {
    case wrapper: StreamingQueryWrapper =>
      wrapper.streamingQuery match {
        case query: MicroBatchExecution if query.runId == event.runId && hooks.concerns(query.analyzedPlan) =>
          RunningQueries.add(query)
          hooks.starts(query.runId, query.analyzedPlan, StreamInternals.session(query).sessionState.conf)
          takeBackRepartition(query)
          prepare(query)
        case _ => ()
      }
    case _ => ()
  }

  override def onQueryProgress(event: QueryProgressEvent): Unit = ()

  override def onQueryTerminated(event: QueryTerminatedEvent): Unit = {
    RunningQueries.remove(event.runId)
    hooks.ended(event.runId)
  }

  private def takeBackRepartition(query: MicroBatchExecution): Unit =
    try AbandonedRepartition.takeBack(query, hooks)
    catch {
      case NonFatal(e) =>
        RestartWakeUp.log.warn(s"Query ${query.id} was not looked at for an abandoned repartition", e)
    }

  /** Makes the sources and trigger executor, as Spark would next, and hooks into the first micro-batch. */
  private def prepare(query: MicroBatchExecution): Unit =
    try {
      StreamInternals.session(query).withActive(query.logicalPlan)
      val executor = query.triggerExecutor
      query.triggerExecutor = new TriggerExecutor {
        override def setNextBatch(first: MicroBatchExecutionContext): Unit = {
          query.triggerExecutor = executor
          executor.setNextBatch(first)
          hooks.check(RestartWakeUp.starting(query, first))
          FinishingTracker.set(query)
          // In real-time mode a micro-batch runs anyway, which has to be the first one with all its checks.
          val mayWait = !first.isCurrentBatchConstructed && !Spark41.isRealTime(query.trigger) &&
            StreamInternals.session(query).sessionState.conf.streamingNoDataMicroBatchesEnabled
          if (mayWait && first.batchId > 0 && hooks.canWake(query.analyzedPlan))
            first.previousContext = Some(RestartWakeUp.predecessor(query, first, hooks))
        }

        override def execute(runner: MicroBatchExecutionContext => Boolean): Unit = executor.execute(runner)
      }
    } catch {
      case NonFatal(e) =>
        RestartWakeUp.log.warn(s"No timer can wake query ${query.id} before its first input", e)
    }
}

object RestartWakeUp {
  private val log = LoggerFactory.getLogger(classOf[RestartWakeUp])
  private val watched = mutable.WeakHashMap.empty[SparkSession, Unit]

  /** Watches the queries that `session` starts from now on. */
  def register(session: SparkSession, hooks: QueryHooks): Unit =
    watched.synchronized {
      session match {
        case local: classic.SparkSession if !watched.contains(session) =>
          watched(session) = ()
          local.streams.addListener(new RestartWakeUp(local, hooks))
        case _ => ()
      }
    }

  private def starting(query: MicroBatchExecution, first: MicroBatchExecutionContext) = StartingQuery(
    query.analyzedPlan,
    query.trigger,
    StreamInternals.session(query).sessionState.conf,
    query.sparkSession.sessionState.newHadoopConf(),
    new Path(query.resolvedCheckpointRoot, "state"),
    first.batchId,
    idsOf(query)
  )

  private def idsOf(query: MicroBatchExecution): (Long, Int) => Option[String] = {
    lazy val ids = query.commitLog.getLatest().flatMap(_._2.stateUniqueIds).getOrElse(Map.empty)
    (operator, partition) => ids.get(operator).map(_(partition).head)
  }

  private def predecessor(
      query: MicroBatchExecution,
      first: MicroBatchExecutionContext,
      hooks: QueryHooks
  ): MicroBatchExecutionContext = {
    // Its constructor differs in each Spark.
    val before = first.getNextContext()
    before._batchId = first.batchId - 1
    before.previousContext = None
    before.executionPlan = new FromCheckpoint(query, first, hooks)
    before
  }

  /** Answers from the checkpoint as the last run's plan would. On the thread of the query. */
  private final class FromCheckpoint(
      query: MicroBatchExecution,
      first: MicroBatchExecutionContext,
      hooks: QueryHooks
  ) extends IncrementalExecution(
        query.sparkSession,
        LocalRelation(),
        query.outputMode,
        query.resolvedCheckpointRoot + "/state",
        query.id,
        query.runId,
        first.batchId - 1,
        None,
        first.offsetSeqMetadata,
        WatermarkPropagator.noop(),
        false
      ) {

    /** Read only once there is no input. */
    private lazy val due: QueryHooks.Due =
      try read()
      catch {
        case NonFatal(e) =>
          RestartWakeUp.log.warn(
            s"Query ${query.id} begins with a micro-batch without input: " +
              "what its checkpoint waits for is unknown",
            e
          )
          (_, _) => true
      }

    override def shouldRunAnotherBatch(metadata: Spark42.OffsetMetadata): Boolean = {
      val hasInput = first.endOffsets.exists { case (source, end) =>
        !first.startOffsets.get(source).contains(end)
      }
      val isDue =
        !hasInput && due(metadata.batchWatermarkMs, metadata.batchTimestampMs)
      if (hasInput || isDue) first.previousContext = None
      isDue
    }

    private def read(): QueryHooks.Due = hooks.due(
      new Path(query.resolvedCheckpointRoot, "state"),
      first.batchId,
      idsOf(query),
      query.sparkSession.sessionState.newHadoopConf()
    )
  }
}
