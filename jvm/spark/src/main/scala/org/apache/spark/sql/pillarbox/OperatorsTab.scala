package org.apache.spark.sql.pillarbox

import java.lang.ref.WeakReference

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal
import scala.xml.Node

import jakarta.servlet.http.HttpServletRequest
import org.apache.spark.scheduler.SparkListener
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore}
import org.apache.spark.ui.{SparkUI, SparkUITab, UIUtils, WebUIPage}
import org.apache.spark.util.kvstore.KVStore
import org.apache.spark.{SparkConf, SparkContext}
import org.slf4j.LoggerFactory

// Pages of Spark's UI are XML literals.
// scalafix:off DisableSyntax.noXml

/**
 * The tab of the library in Spark's UI: a line for each operator, and behind its name one for each partition.
 * Threads of the web server read the store.
 */
private[spark] final class OperatorsTab(store: KVStore, ui: SparkUI, live: LiveFigures)
    extends SparkUITab(ui, "pillarbox") {
  attachPage(new OperatorsPage(this, store, live))
  attachPage(new PartitionsPage(this, store, live))
  ui.attachTab(this)

  /** True if the UI has pages of streaming queries. */
  def hasStreaming: Boolean = ui.getTabs.exists(_.prefix == OperatorsTab.Streaming)
}

object OperatorsTab {
  private[pillarbox] final val Streaming = "StreamingQuery"

  private val log = LoggerFactory.getLogger("io.pillarbox.OperatorsTab")

  /** The context without a tab. */
  @volatile private var refused = new WeakReference[AnyRef](null)

  /**
   * Adds the tab to the application's UI, if it has one, and follows its operators from now on. Where the UI
   * is another than Spark's own there is no tab: no query fails for it.
   */
  def attach(sc: SparkContext): Unit = unlessRefused(sc)(addTo(sc))

  /** Runs it until it fails; then again for another context, as notebooks start a new one. */
  private[pillarbox] def unlessRefused(context: AnyRef)(add: => Unit): Unit =
    if (refused.get ne context)
      try add
      catch {
        case problem @ (NonFatal(_) | _: LinkageError) =>
          refused = new WeakReference(context)
          log.warn("Spark's UI takes no tab", problem)
      }

  private def addTo(sc: SparkContext): Unit = sc.ui.foreach { ui =>
    ui.synchronized {
      if (!ui.getTabs.exists(_.isInstanceOf[OperatorsTab])) {
        val store = sc.statusStore.store.asInstanceOf[ElementTrackingStore]
        val listener = new OperatorsListener(store, isLive = true)
        sc.listenerBus.addToStatusQueue(listener)
        new OperatorsTab(store, ui, listener.live): Unit
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
    if (store.count(classOf[OperatorFigures]) > 0) new OperatorsTab(store, ui, new LiveFigures): Unit
  }
}

private final class OperatorsPage(tab: OperatorsTab, store: KVStore, live: LiveFigures)
    extends WebUIPage("") {

  override def render(request: HttpServletRequest): Seq[Node] = {
    val operators = store.view(classOf[OperatorFigures]).index("updated").reverse.asScala.toSeq
    def table(title: String, kinds: Set[String], all: Seq[Column]): Seq[Node] = {
      val own = operators.filter(operator => kinds(operator.kind))
      val columns = all.filter(column => own.exists(column.has(_, live)))
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
    val query = operator.query.take(8)
    <tr>
      <td><a href={link(s"/pillarbox/operator/?id=${operator.id}")}>{operator.name}</a></td>
      <td title={operator.query}>{
      if (operator.hasRun && tab.hasStreaming)
        <a href={link(s"/${OperatorsTab.Streaming}/statistics/?id=${operator.run}")}>{query}</a>
      else query
    }</td>
      <td><a href={link(s"/SQL/execution/?id=${operator.execution}")}>{operator.execution.toString}</a></td>
      <td>{operator.runs.toString}</td>
      {columns.map(column => <td>{column.of(operator, live)}</td>)}
    </tr>
  }
}

private final class PartitionsPage(tab: OperatorsTab, store: KVStore, live: LiveFigures)
    extends WebUIPage("operator") {

  override def render(request: HttpServletRequest): Seq[Node] = {
    val id = request.getParameter("id")
    val found = store.view(classOf[OperatorFigures]).asScala.find(_.id.toString == id)
    val content = found.fold[Seq[Node]](<p>There are no figures of this operator any more.</p>) { operator =>
      live.latencies(operator.id).toSeq.flatMap(LatencyPicture.large) ++ table(operator)
    }
    UIUtils.headerSparkPage(request, found.fold("Operator")(_.name), content, tab)
  }

  private def table(operator: OperatorFigures): Seq[Node] = {
    val all = if (OperatorsListener.Calls(operator.kind)) Column.OfCalls else Column.OfKeyed
    val lines = operator.partitions.map(one => one.partition -> operator.only(one))
    val columns =
      all.filter(column => column.isOfPartitions && lines.exists(line => column.has(line._2, live)))
    UIUtils.listingTable[(Int, OperatorFigures)](
      "Partition" +: columns.map(_.title),
      { case (partition, one) =>
        <tr><td>{partition.toString}</td>{columns.map(column => <td>{column.of(one, live)}</td>)}</tr>
      },
      lines
    )
  }
}
