package org.apache.spark.sql.pillarbox

import java.util.{LinkedHashMap => JLinkedHashMap, Map => JMap}

import scala.collection.mutable

import org.apache.spark.scheduler._
import org.apache.spark.sql.execution.SparkPlanInfo
import org.apache.spark.sql.execution.metric.SQLMetricInfo
import org.apache.spark.sql.execution.ui._
import org.apache.spark.status.ElementTrackingStore

/**
 * Gathers the figures of the library's operators by partition: of tasks that have ended, and of running ones
 * with each heartbeat of their executors. Counts and times of a streaming query are summed over its
 * micro-batches; of a level, such as the entries in the state, the last is kept.
 *
 * One thread of Spark calls it, that of an application's events or that which reads an event log.
 *
 * @param isLive true if the store is to be up to date while the application runs; otherwise it is written
 *   when an execution ends
 */
private[spark] final class OperatorsListener(store: ElementTrackingStore, isLive: Boolean)
    extends SparkListener {
  import OperatorsListener._

  private val executions = mutable.HashMap.empty[Long, Execution]
  private val metrics = mutable.HashMap.empty[Long, Metric]
  private val partitions = mutable.HashMap.empty[Long, Int]

  /** By the query or execution and the place in it, the least recently changed first. */
  private val operators = mutable.LinkedHashMap.empty[String, Operator]
  private var created = 0L

  /** The nodes of late by all their metrics, also when their execution has ended: reports may be late. */
  private val reporters = new JLinkedHashMap[Long, Tracked] {
    override def removeEldestEntry(eldest: JMap.Entry[Long, Tracked]): Boolean = size > MostReporters
  }

  /** The part of the figures that is not stored. */
  val live = new LiveFigures

  store.onFlush(flush())

  /** Writes all figures to the store. */
  def flush(): Unit = operators.values.foreach(write)

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case start: SparkListenerSQLExecutionStart => planned(start.executionId, start.sparkPlanInfo)
    case update: SparkListenerSQLAdaptiveExecutionUpdate => planned(update.executionId, update.sparkPlanInfo)
    case end: SparkListenerSQLExecutionEnd => ended(end.executionId)
    case report: OperatorReport =>
      Option(reporters.get(report.metric)).foreach { tracked =>
        // What has ended and was forgotten stays so.
        val operator = operators.get(tracked.key).orElse {
          Option.when(executions.contains(tracked.execution.number))(operatorOf(tracked))
        }
        operator.foreach(known => live.take(known.id, report))
      }
    case _ => ()
  }

  private def planned(number: Long, plan: SparkPlanInfo): Unit = {
    val nodes = nodesOf(plan)
    if (nodes.nonEmpty) {
      val execution = executions.getOrElseUpdate(number, new Execution(number))
      execution.nodes = nodes
      if (execution.owner != null) track(execution)
    }
  }

  /**
   * Tells whose execution it is, which the properties of its first job say. The job may be of an execution
   * inside of it, as in `foreachBatch`.
   */
  override def onJobStart(job: SparkListenerJobStart): Unit = Option(job.properties).foreach { properties =>
    for {
      key <- ExecutionIds
      number <- Option(properties.getProperty(key))
      execution <- executions.get(number.toLong) if execution.owner == null
    } {
      execution.query = Option(properties.getProperty(QueryId)).getOrElse("")
      if (execution.query.nonEmpty) execution.run = Option(properties.getProperty(JobGroup)).getOrElse("")
      execution.owner = if (execution.query.isEmpty) s"execution $number" else execution.query
      track(execution)
    }
  }

  /** Nodes of one name are told apart by their order in the plan. */
  private def track(execution: Execution): Unit = {
    val seen = mutable.HashMap.empty[String, Int]
    execution.nodes.foreach { node =>
      val label = s"${node.kind} ${node.name}"
      val place = seen.getOrElse(label, 0)
      seen(label) = place + 1
      val tracked = Tracked(s"${execution.owner}, $label $place", node, execution)
      node.metrics.filterNot(metric => metrics.contains(metric.accumulatorId)).foreach { metric =>
        metrics(metric.accumulatorId) = Metric(tracked, metric.name, metric.metricType)
        if (isLive) reporters.put(metric.accumulatorId, tracked)
      }
    }
  }

  override def onTaskStart(task: SparkListenerTaskStart): Unit =
    if (metrics.nonEmpty) partitions(task.taskInfo.taskId) = partitionOf(task.taskInfo)

  override def onExecutorMetricsUpdate(update: SparkListenerExecutorMetricsUpdate): Unit =
    update.accumUpdates.foreach { case (task, _, _, values) =>
      partitions.get(task).foreach { partition =>
        changed(values)((operator, place, value) => operator.isRunning(task, partition, place, value))
      }
    }

  /** What a failed task has counted doesn't count. */
  override def onTaskEnd(end: SparkListenerTaskEnd): Unit = {
    val task = end.taskInfo
    if (partitions.remove(task.taskId).isDefined) operators.values.foreach(_.running -= task.taskId)
    if (task.successful) {
      val partition = partitionOf(task)
      changed(task.accumulables.toSeq, _.levelsAreZero(partition)) { (operator, place, value) =>
        operator.hasEnded(partition, place, value)
      }
    }
  }

  /** Calls `first` with each operator that the values are of, before its values are used. */
  private def changed(values: Seq[AccumulableInfo], first: Operator => Unit = _ => ())(
      use: (Operator, Int, Long) => Unit
  ): Unit =
    if (metrics.nonEmpty) {
      val touched = mutable.LinkedHashSet.empty[Operator]
      for {
        info <- values
        metric <- metrics.get(info.id)
        value <- info.update.map(numberOf) if value >= 0
      } {
        val operator = operatorOf(metric.of)
        if (touched.add(operator)) first(operator)
        use(operator, operator.placeOf(metric.name, metric.kind), value)
      }
      touched.foreach(operator => if (isLive && operator.isDue) write(operator))
    }

  /** The operator of a node, which is made when it first counts: a plan shows those of cached data, too. */
  private def operatorOf(tracked: Tracked): Operator = {
    import tracked.{execution, key, node}
    val operator = operators.remove(key).getOrElse {
      created += 1
      val made = new Operator(created, node.kind, node.name, execution.query)
      node.metrics.foreach(metric => made.placeOf(metric.name, metric.metricType))
      made
    }
    operators(key) = operator
    if (operator.execution != execution.number) {
      operator.execution = execution.number
      operator.run = execution.run
      operator.runs += 1
      operator.forgetTimers()
    }
    operator
  }

  private def ended(number: Long): Unit = executions.remove(number).foreach { execution =>
    metrics.filterInPlace((_, metric) => metric.of.execution ne execution)
    operators.valuesIterator.filter(_.execution == number).foreach(write)
    if (executions.isEmpty) {
      partitions.clear()
      operators.values.foreach(_.running.clear())
    }
    forgetOld()
  }

  private def forgetOld(): Unit = {
    var size = operators.valuesIterator.map(_.size).sum
    while (operators.size > MostOperators || (size > MostPartitions && operators.size > 1)) {
      val (key, oldest) = operators.head
      operators -= key
      size -= oldest.size
      store.delete(classOf[OperatorFigures], oldest.id)
      live.forget(oldest.id)
    }
  }

  private def write(operator: Operator): Unit = {
    operator.updated = System.currentTimeMillis
    store.write(operator.figures)
  }
}

private object OperatorsListener {

  /** The nodes of the plan that are the library's, by their names. */
  val Calls: Set[String] = Set("AsyncIO", "CarryOver")
  val Keyed: Set[String] = Set("KeyedProcess", "KeyedProcessBatch")

  private val ExecutionIds = Seq("spark.sql.execution.id", "spark.sql.execution.root.id")
  private val QueryId = "sql.streaming.queryId"

  /** Of a job of a streaming query it is the id of the query's run. */
  private val JobGroup = "spark.jobGroup.id"
  private val MostOperators = 200
  private val MostPartitions = 100000
  private val MostReporters = 20000
  private val PeriodMs = 1000L

  /** The metrics of which the last value counts, not the sum over micro-batches. */
  val Levels: Set[String] = Set(
    "calls in flight",
    "calls waiting",
    "number of total state rows",
    "memory used by state",
    "bytes of state in local files",
    "number of timers waiting",
    "number of calls in flight at the end of the micro-batch",
    "number of rows carried into the next micro-batch",
    "number of results that the next micro-batch emits",
    "number of calls that the limit allows at a time"
  )

  /** The times to the next timers, of which the least counts. */
  val Timers: Set[String] = Set("time to the next event-time timer", "time to the next processing-time timer")

  private final class Execution(val number: Long) {
    var nodes: Seq[Node] = Nil
    var query = ""
    var run = ""
    var owner: String = _
  }

  /** What is kept of a node of a plan: the plan is large, and the nodes of many executions are kept. */
  private final case class Node(kind: String, name: String, metrics: Seq[SQLMetricInfo])

  private final case class Tracked(key: String, node: Node, execution: Execution)

  private final case class Metric(of: Tracked, name: String, kind: String)

  private final class Operator(val id: Long, kind: String, name: String, query: String) {
    private val metrics = mutable.ArrayBuffer.empty[(String, String)]
    private val ended = mutable.TreeMap.empty[Int, Array[Long]]

    /** The partition and the values so far of each task that runs. */
    val running = mutable.HashMap.empty[Long, (Int, Array[Long])]
    var execution: Long = -1L
    var run = ""
    var runs = 0L
    var updated = 0L

    def isDue: Boolean = System.currentTimeMillis - updated >= PeriodMs

    /** The number of partitions. */
    def size: Int = ended.size

    def placeOf(metric: String, kind: String): Int = {
      val place = metrics.indexWhere(_._1 == metric)
      if (place < 0) metrics += ((metric, kind))
      if (place < 0) metrics.size - 1 else place
    }

    def isRunning(task: Long, partition: Int, place: Int, value: Long): Unit = {
      val (_, values) = running.getOrElse(task, (partition, Array.empty[Long]))
      running(task) = (partition, set(values, place, value))
    }

    def hasEnded(partition: Int, place: Int, value: Long): Unit =
      ended(partition) = add(ended.getOrElse(partition, Array.empty[Long]), place, value)

    private def add(values: Array[Long], place: Int, value: Long): Array[Long] = {
      val before = if (isLevel(place) || place >= values.length) 0L else math.max(0L, values(place))
      set(values, place, before + value)
    }

    /** A micro-batch after which there is no timer has no time to the next one. */
    def forgetTimers(): Unit = for {
      place <- metrics.indices if Timers(metrics(place)._1)
      values <- ended.values if place < values.length
    } values(place) = -1L

    /** Spark tells no metric of a task that is zero. */
    def levelsAreZero(partition: Int): Unit = for {
      values <- ended.get(partition)
      place <- values.indices if Levels(metrics(place)._1) && values(place) > 0
    } values(place) = 0L

    private def isLevel(place: Int): Boolean = {
      val (name, kind) = metrics(place)
      kind == "average" || Levels(name) || Timers(name)
    }

    /** Returns the array, or a longer copy if it is too short. */
    private def set(values: Array[Long], place: Int, value: Long): Array[Long] = {
      val all = if (place < values.length) values else values.padTo(metrics.size, -1L)
      all(place) = value
      all
    }

    def figures: OperatorFigures = {
      val all = mutable.TreeMap.empty[Int, Array[Long]]
      ended.foreach { case (partition, values) => all(partition) = values.padTo(metrics.size, -1L).clone() }
      running.values.foreach { case (partition, values) =>
        values.indices.filter(values(_) >= 0).foreach { place =>
          all(partition) = add(all.getOrElse(partition, Array.empty[Long]), place, values(place))
        }
      }
      val partitions = all.map { case (number, values) => new PartitionFigures(number, values) }
      val (names, kinds) = metrics.unzip
      new OperatorFigures(
        id,
        kind,
        name,
        query,
        run,
        execution,
        runs,
        updated,
        names.toArray,
        kinds.toArray,
        partitions.toArray
      )
    }
  }

  private def nodesOf(plan: SparkPlanInfo): Seq[Node] = {
    val isOwn = Calls(plan.nodeName) || Keyed(plan.nodeName)
    Option.when(isOwn)(Node(plan.nodeName, nameOf(plan), plan.metrics)).toSeq ++
      plan.children.flatMap(nodesOf)
  }

  /** The operator's name, which the node shows before its first option. */
  private def nameOf(node: SparkPlanInfo): String =
    node.simpleString.stripPrefix(node.nodeName).trim.split(", form=", 2).head

  private def partitionOf(task: TaskInfo): Int = if (task.partitionId >= 0) task.partitionId else task.index

  /** An update is text in an event log. */
  private def numberOf(update: Any): Long = update match {
    case number: Long => number
    case text: String => text.toLong
    case _ => -1L
  }
}
