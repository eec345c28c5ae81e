package org.apache.spark.sql.pillarbox

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal
import scala.xml.Node

import jakarta.servlet.http.HttpServletRequest
import org.apache.spark.scheduler.SparkListener
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore}
import org.apache.spark.ui.{SparkUI, SparkUITab, UIUtils, WebUIPage}
import org.apache.spark.util.Utils
import org.apache.spark.util.kvstore.KVStore
import org.apache.spark.{SparkConf, SparkContext}
import org.slf4j.LoggerFactory

// Pages of Spark's UI are XML literals.
// scalafix:off DisableSyntax.noXml

/**
 * The tab of the library in Spark's UI: a line for each operator, and behind its name one for each partition.
 * Threads of the web server read the store.
 */
private[spark] final class OperatorsTab(store: KVStore, ui: SparkUI) extends SparkUITab(ui, "pillarbox") {
  attachPage(new OperatorsPage(this, store))
  attachPage(new PartitionsPage(this, store))
  ui.attachTab(this)
}

object OperatorsTab {

  private val log = LoggerFactory.getLogger("io.pillarbox.OperatorsTab")
  @volatile private var works = true

  /**
   * Adds the tab to the application's UI, if it has one, and follows its operators from now on. Where the UI
   * is another than Spark's own there is no tab: no query fails for it.
   */
  def attach(sc: SparkContext): Unit =
    if (works)
      try addTo(sc)
      catch {
        case problem @ (NonFatal(_) | _: LinkageError) =>
          works = false
          log.warn("Spark's UI takes no tab", problem)
      }

  private def addTo(sc: SparkContext): Unit = sc.ui.foreach { ui =>
    ui.synchronized {
      if (!ui.getTabs.exists(_.isInstanceOf[OperatorsTab])) {
        val store = sc.statusStore.store.asInstanceOf[ElementTrackingStore]
        sc.listenerBus.addToStatusQueue(new OperatorsListener(store, isLive = true))
        new OperatorsTab(store, ui): Unit
      }
    }
  }
}

/** Shows the tab in Spark's history server, which finds this class as a service on its class path. */
private[spark] final class OperatorsHistoryPlugin extends AppHistoryServerPlugin {

  override def createListeners(conf: SparkConf, store: ElementTrackingStore): Seq[SparkListener] =
    Seq(new OperatorsListener(store, isLive = false))

  override def setupUI(ui: SparkUI): Unit = {
    val store = ui.store.store
    if (store.count(classOf[OperatorFigures]) > 0) new OperatorsTab(store, ui): Unit
  }
}

private final class OperatorsPage(tab: OperatorsTab, store: KVStore) extends WebUIPage("") {

  override def render(request: HttpServletRequest): Seq[Node] = {
    val operators = store.view(classOf[OperatorFigures]).index("updated").reverse.asScala.toSeq
    def table(title: String, kinds: Set[String], columns: Seq[Column]): Seq[Node] = {
      val own = operators.filter(operator => kinds(operator.kind))
      if (own.isEmpty) Nil
      else
        <h4>{title}</h4> ++ UIUtils.listingTable(
          Seq("Operator", "Query", "Last run", "Runs") ++ columns.map(_.title),
          row(request, columns),
          own
        )
    }
    val content = table("Calls", OperatorsListener.Calls, Column.OfCalls) ++
      table("Keyed functions", OperatorsListener.Keyed, Column.OfKeyed)
    UIUtils.headerSparkPage(request, "Pillarbox", content, tab)
  }

  private def row(request: HttpServletRequest, columns: Seq[Column])(operator: OperatorFigures): Seq[Node] = {
    def link(path: String) = UIUtils.prependBaseUri(request, tab.basePath, path)
    <tr>
      <td><a href={link(s"/pillarbox/operator/?id=${operator.id}")}>{operator.name}</a></td>
      <td title={operator.query}>{operator.query.take(8)}</td>
      <td><a href={link(s"/SQL/execution/?id=${operator.execution}")}>{operator.execution.toString}</a></td>
      <td>{operator.runs.toString}</td>
      {columns.map(column => <td>{column.of(operator)}</td>)}
    </tr>
  }
}

private final class PartitionsPage(tab: OperatorsTab, store: KVStore) extends WebUIPage("operator") {

  override def render(request: HttpServletRequest): Seq[Node] = {
    val id = request.getParameter("id")
    val found = store.view(classOf[OperatorFigures]).asScala.find(_.id.toString == id)
    val content = found.fold[Seq[Node]](<p>There are no figures of this operator any more.</p>)(table)
    UIUtils.headerSparkPage(request, found.fold("Operator")(_.name), content, tab)
  }

  private def table(operator: OperatorFigures): Seq[Node] = {
    val columns =
      if (OperatorsListener.Calls(operator.kind)) Column.OfCalls else Column.OfKeyed
    UIUtils.listingTable[PartitionFigures](
      "Partition" +: columns.map(_.title),
      { partition =>
        val one = operator.only(partition)
        <tr><td>{partition.partition.toString}</td>{columns.map(column => <td>{column.of(one)}</td>)}</tr>
      },
      operator.partitions
    )
  }
}

/** A column of both tables. */
private sealed trait Column {
  def title: String
  def of(operator: OperatorFigures): String
}

/** What calls have used, of each unit that they report: the metrics whose name is the unit and "used". */
private object Used extends Column {
  override val title = "Used"

  override def of(operator: OperatorFigures): String =
    operator.metrics
      .filter(_.endsWith(Suffix))
      .sorted
      .map(metric => f"${operator.valuesOf(metric).sum}%,d ${metric.stripSuffix(Suffix)}")
      .mkString(", ")

  private val Suffix = " used"
}

/** A column of the first of these metrics that the operator has. */
private final case class Figure(title: String, metrics: String*) extends Column {

  /** The figure over the partitions: their sum, or their mean or most where the metric is an average. */
  override def of(operator: OperatorFigures): String =
    metrics.find(operator.metrics.contains(_)).fold("") { metric =>
      val values = operator.valuesOf(metric)
      operator.typeOf(metric) match {
        case "average" if values.isEmpty => ""
        case "average" if Figure.Most(metric) => f"${values.foldLeft(0L)(math.max) / 10}%,d"
        case "average" => f"${values.sum / 10.0 / values.length}%.1f"
        case "timing" if OperatorsListener.Timers(metric) =>
          values.minOption.fold("")(UIUtils.formatDuration(_))
        case "timing" => UIUtils.formatDuration(values.sum)
        case "nsTiming" => UIUtils.formatDuration(values.sum / 1000000L)
        case "size" => Utils.bytesToString(values.sum)
        case _ => f"${values.sum}%,d"
      }
    }
}

private object Figure {

  /** Of these averages the largest is shown. */
  private val Most = Set("calls in flight, most in a task", "oldest call in flight (ms)")
}

private object Column {
  private val Rows = Figure("Rows out", "number of output rows")

  val OfCalls: Seq[Column] = Seq(
    Rows,
    Figure("Calls", "calls"),
    Figure("Retries", "retries"),
    Figure("Timeouts", "timeouts"),
    Figure("Errors", "errors"),
    Figure("Rate-limited", "rate-limited", "number of calls that the service refused"),
    Figure("Shared", "shared", "number of rows that shared the call of another"),
    Figure("From the journal", "answers from the journal", "number of answers from the journal"),
    Used,
    Figure("In flight", "calls in flight", "number of calls in flight at the end of the micro-batch"),
    Figure("Waiting", "calls waiting"),
    Figure("Most in flight in a task", "calls in flight, most in a task"),
    Figure("Oldest call (ms)", "oldest call in flight (ms)"),
    Figure("Latency mean (ms)", "call latency mean (ms)"),
    Figure("Latency p99 (ms)", "call latency p99 (ms)"),
    Figure("Waited for capacity", "time waiting for capacity"),
    Figure("Waited for limits", "time waiting for limits")
  )

  val OfKeyed: Seq[Column] = Seq(
    Rows,
    Figure("Entries in the state", "number of total state rows"),
    Figure("Written", "number of updated state rows"),
    Figure("Late rows dropped", "number of rows which are dropped by watermark"),
    Figure("Event timers fired", "number of event-time timers fired"),
    Figure("Processing timers fired", "number of processing-time timers fired"),
    Figure("Timers waiting", "number of timers waiting"),
    Figure("Next event timer after", "time to the next event-time timer"),
    Figure("Next processing timer after", "time to the next processing-time timer"),
    Figure("Time in Python", "time to run Python workers"),
    Figure("Time to commit", "time to commit changes"),
    Figure("Bytes committed", "bytes written by commits"),
    Figure("Bytes on disk", "bytes of state in local files")
  )
}
