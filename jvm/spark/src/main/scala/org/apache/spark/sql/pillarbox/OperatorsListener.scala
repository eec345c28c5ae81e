package org.apache.spark.sql.pillarbox

import scala.collection.mutable

import org.apache.spark.scheduler._
import org.apache.spark.sql.execution.SparkPlanInfo
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

  store.onFlush(flush())

  /** Writes all figures to the store. */
  def flush(): Unit = operators.values.foreach(write)

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case start: SparkListenerSQLExecutionStart => planned(start.executionId, start.sparkPlanInfo)
    case update: SparkListenerSQLAdaptiveExecutionUpdate => planned(update.executionId, update.sparkPlanInfo)
    case end: SparkListenerSQLExecutionEnd => ended(end.executionId)
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
      execution.owner = if (execution.query.isEmpty) s"execution $number" else execution.query
      track(execution)
    }
  }

  /** Nodes of one name are told apart by their order in the plan. */
  private def track(execution: Execution): Unit = {
    val seen = mutable.HashMap.empty[String, Int]
    execution.nodes.foreach { node =>
      val label = s"${node.nodeName} ${nameOf(node)}"
      val place = seen.getOrElse(label, 0)
      seen(label) = place + 1
      val operator = touched(s"${execution.owner}, $label $place", node, execution)
      node.metrics.filterNot(metric => metrics.contains(metric.accumulatorId)).foreach { metric =>
        metrics(metric.accumulatorId) =
          Metric(operator, operator.placeOf(metric.name, metric.metricType), execution)
      }
    }
  }

  private def touched(place: String, node: SparkPlanInfo, execution: Execution): Operator = {
    val operator = operators.remove(place).getOrElse {
      created += 1
      new Operator(created, node.nodeName, nameOf(node), execution.query)
    }
    operators(place) = operator
    if (operator.execution != execution.number) {
      operator.execution = execution.number
      operator.runs += 1
    }
    if (operators.size > MostOperators) {
      val (oldest, its) = operators.head
      operators -= oldest
      store.delete(classOf[OperatorFigures], its.id)
    }
    write(operator)
    operator
  }

  override def onTaskStart(task: SparkListenerTaskStart): Unit =
    if (metrics.nonEmpty) partitions(task.taskInfo.taskId) = partitionOf(task.taskInfo)

  override def onExecutorMetricsUpdate(update: SparkListenerExecutorMetricsUpdate): Unit =
    update.accumUpdates.foreach { case (task, _, _, values) =>
      partitions.get(task).foreach { partition =>
        changed(values) { case (metric, value) =>
          metric.operator.isRunning(task, partition, metric.place, value)
        }
      }
    }

  override def onTaskEnd(end: SparkListenerTaskEnd): Unit = {
    val task = end.taskInfo
    partitions -= task.taskId
    changed(task.accumulables.toSeq) { case (metric, value) =>
      metric.operator.running -= task.taskId
      if (task.successful) metric.operator.hasEnded(partitionOf(task), metric.place, value)
    }
  }

  private def changed(values: Seq[AccumulableInfo])(use: (Metric, Long) => Unit): Unit = if (
    metrics.nonEmpty
  ) {
    val touched = values.flatMap { info =>
      for {
        metric <- metrics.get(info.id)
        value <- info.update.map(numberOf) if value >= 0
      } yield {
        use(metric, value)
        metric.operator
      }
    }
    touched.distinct.foreach(operator => if (isLive && operator.isDue) write(operator))
  }

  private def ended(number: Long): Unit = executions.remove(number).foreach { execution =>
    val own = metrics.collect { case (id, metric) if metric.execution eq execution => id -> metric.operator }
    metrics --= own.keys
    own.values.toSet[Operator].foreach { operator =>
      operator.running.clear()
      write(operator)
    }
    if (metrics.isEmpty) partitions.clear()
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
  private val MostOperators = 200
  private val PeriodMs = 1000L

  /** The metrics of which the last value counts, not the sum over micro-batches. */
  private val Levels = Set(
    "calls in flight",
    "number of total state rows",
    "memory used by state",
    "bytes of state in local files",
    "number of calls in flight at the end of the micro-batch",
    "number of rows carried into the next micro-batch",
    "number of results that the next micro-batch emits",
    "number of calls that the limit allows at a time"
  )

  private final class Execution(val number: Long) {
    var nodes: Seq[SparkPlanInfo] = Nil
    var query = ""
    var owner: String = _
  }

  private final case class Metric(operator: Operator, place: Int, execution: Execution)

  private final class Operator(val id: Long, kind: String, name: String, query: String) {
    private val metrics = mutable.ArrayBuffer.empty[(String, String)]
    private val ended = mutable.TreeMap.empty[Int, mutable.ArrayBuffer[Long]]

    /** The partition and the values so far of each task that runs. */
    val running = mutable.HashMap.empty[Long, (Int, mutable.ArrayBuffer[Long])]
    var execution: Long = -1L
    var runs = 0L
    var updated = 0L

    def isDue: Boolean = System.currentTimeMillis - updated >= PeriodMs

    def placeOf(metric: String, kind: String): Int = {
      val place = metrics.indexWhere(_._1 == metric)
      if (place < 0) metrics += ((metric, kind))
      if (place < 0) metrics.size - 1 else place
    }

    def isRunning(task: Long, partition: Int, place: Int, value: Long): Unit =
      put(running.getOrElseUpdate(task, (partition, mutable.ArrayBuffer.empty))._2, place, value)

    def hasEnded(partition: Int, place: Int, value: Long): Unit =
      add(ended.getOrElseUpdate(partition, mutable.ArrayBuffer.empty), place, value)

    private def add(values: mutable.ArrayBuffer[Long], place: Int, value: Long): Unit = {
      val before = if (isLevel(place) || place >= values.size) 0L else math.max(0L, values(place))
      put(values, place, before + value)
    }

    private def isLevel(place: Int): Boolean = {
      val (name, kind) = metrics(place)
      kind == "average" || Levels(name)
    }

    private def put(values: mutable.ArrayBuffer[Long], place: Int, value: Long): Unit = {
      while (values.size <= place) values += -1L
      values(place) = value
    }

    def figures: OperatorFigures = {
      val all = mutable.TreeMap.empty[Int, mutable.ArrayBuffer[Long]]
      ended.foreach { case (partition, values) => all(partition) = values.clone() }
      running.values.foreach { case (partition, values) =>
        val sum = all.getOrElseUpdate(partition, mutable.ArrayBuffer.empty)
        values.indices.filter(values(_) >= 0).foreach(place => add(sum, place, values(place)))
      }
      val partitions = all.map { case (number, values) =>
        new PartitionFigures(number, values.toArray.padTo(metrics.size, -1L))
      }
      val (names, kinds) = metrics.unzip
      new OperatorFigures(
        id,
        kind,
        name,
        query,
        execution,
        runs,
        updated,
        names.toArray,
        kinds.toArray,
        partitions.toArray
      )
    }
  }

  private def nodesOf(plan: SparkPlanInfo): Seq[SparkPlanInfo] = {
    val own = if (Calls(plan.nodeName) || Keyed(plan.nodeName)) Seq(plan) else Nil
    own ++ plan.children.flatMap(nodesOf)
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
