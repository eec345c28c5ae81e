package org.apache.spark.sql.pillarbox

import java.lang.ref.WeakReference

import scala.collection.mutable.ArrayBuffer
import scala.io.Source
import scala.jdk.CollectionConverters._
import scala.util.Using

import io.pillarbox.spark.SpecBuilder
import io.pillarbox.spark.functions.{Metered, OddFails}
import io.pillarbox.spark.keyed.{Event, KeyedFixture, Spec}
import org.apache.spark.scheduler._
import org.apache.spark.sql.execution.SparkPlanInfo
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart
import org.apache.spark.status.KVUtils.KVStoreScalaSerializer
import org.apache.spark.status.{AppStatusStore, ElementTrackingStore}
import org.apache.spark.ui.{SparkUI, SparkUITab}
import org.apache.spark.util.JsonProtocol
import org.apache.spark.util.kvstore.InMemoryStore
import org.apache.spark.{TaskKilled, TaskState}
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

/** The figures of operators in Spark's UI, live and from an event log. */
class OperatorsTabSuite extends AnyFunSuite with KeyedFixture with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(60, Seconds))

  test("calls are counted by partition, live and when the event log is read again") {
    val watched = new Watched
    val df = spark.range(0, 10, 1, 2).toDF()
    val calls = SpecBuilder.asyncIO(df, classOf[OddFails], "x long") { spec =>
      spec.put("on_error", "null").put("name", "price, with \"quotes\""): Unit
    }
    watched.during(calls.collect(): Unit)

    val operator = watched.only
    assert(operator.name == "price, with \"quotes\"" && operator.kind == "AsyncIO" && operator.runs == 1)
    assert(operator.partitions.map(_.partition).toSeq == Seq(0, 1))
    assert(operator.valuesOf("calls").toSeq == Seq(5, 5) && operator.valuesOf("errors").sum == 5)
    assert(operator.valuesOf("number of output rows").toSeq == Seq(5, 5))
    val known = operator.metrics.toSet ++ metricsOfCarryOver
    assert(metricsOf(Column.OfCalls).filterNot(known).isEmpty)
    assert(shown(watched.again.only) == shown(operator))
  }

  test("what calls have used is shown by its unit, live and when the event log is read again") {
    val watched = new Watched
    val calls = SpecBuilder.asyncIO(spark.range(0, 60, 1, 2).toDF(), classOf[Metered], "x long") { spec =>
      spec.putArray("units").add("tokens").add("usd"): Unit
    }
    watched.during(calls.collect(): Unit)
    assert(Used.of(watched.only) == "1,770 tokens, 30 usd")
    assert(Used.of(watched.again.only) == "1,770 tokens, 30 usd")
  }

  test("the micro-batches of a query are one line; counts add up, and the state's size is the last") {
    val watched = new Watched
    var entries = 0L
    withFolder { folder =>
      val stream = new Stream(folder)
      watched.during(stream.running(process(stream.input, Spec())) { query =>
        Seq("a", "b", "c").foreach { key =>
          stream.add(Event(key, 1, 1000), Event("a", 2, 1000))
          query.processAllAvailable()
        }
        entries = query.lastProgress.stateOperators.head.numRowsTotal
      })
    }
    val operator = watched.only
    assert(operator.kind == "KeyedProcess" && operator.runs == 3 && operator.query.nonEmpty)
    assert(operator.valuesOf("number of output rows").sum == 6)
    val known =
      operator.metrics.toSet ++ metricsOfCarryOver ++ metricsOfKeyedCalls + "time to run Python workers"
    assert(metricsOf(Column.OfKeyed).filterNot(known).isEmpty)
    assert(OperatorsListener.Levels.filterNot(known ++ Seq("calls in flight", "calls waiting")).isEmpty)
    assert(operator.valuesOf("number of total state rows").sum == entries && entries > 0)
    assert(shown(watched.again.only) == shown(operator))
  }

  test("the latencies of calls are live, and no event log has them") {
    val watched = new Watched
    val calls = SpecBuilder.asyncIO(spark.range(0, 10, 1, 2).toDF(), classOf[OddFails], "x long") { spec =>
      spec.put("on_error", "null"): Unit
    }
    watched.during {
      calls.collect()
      eventually(assert(watched.live.latencies(1L).map(_.total).contains(10L)))
    }
    assert(LatencyOfLate.of(watched.only, watched.live).map(_.text).mkString.contains("p99"))
    assert(LatencyOfLate.of(watched.again.only, new LiveFigures).isEmpty)
  }

  test("the hottest key is live, of a stream and of a batch, and hidden where errors hide values") {
    val hot = Seq.fill(6)(Event("a", 1, 1000)) ++ Seq("b", "c").map(Event(_, 1, 1000))
    def shownBy(run: (() => Unit) => Unit): String = {
      val watched = new Watched
      def awaitShown(): Unit = eventually {
        val found = watched.live.hottestKey(1L, (0 until 100).toSet)
        assert(found.exists(_._2 == 0.75))
      }
      watched.during(run(() => awaitShown()))
      Hottest.of(watched.only, watched.live).map(_.text).mkString
    }
    def stream(shown: () => Unit): Unit = withFolder { folder =>
      val stream = new Stream(folder)
      stream.add(hot: _*)
      stream.running(process(stream.input, Spec())) { query =>
        query.processAllAvailable()
        shown()
      }
    }
    def batch(shown: () => Unit): Unit = {
      process(frame(hot), Spec()).collect()
      shown()
    }
    assert(shownBy(stream(_)) == "'a', about 75 %")
    assert(shownBy(batch(_)) == "'a', about 75 %")
    withSettings("spark.pillarbox.errors.showValues" -> "false") {
      assert(shownBy(batch(_)) == "*********(redacted), about 75 %")
    }
  }

  test("the time to the next timer is the least of all partitions, and none once there is no timer") {
    def timesWith(ms: Long, fired: Int): OperatorFigures = {
      val watched = new Watched
      withFolder { folder =>
        val stream = new Stream(folder)
        val spec = Spec(options = Map("clock" -> ms.toString))
        watched.during(stream.running(process(stream.input, spec)) { query =>
          stream.add(Event("a", 1, 1000), Event("b", 1, 1000))
          query.processAllAvailable()
          eventually {
            val operators = query.recentProgress.flatMap(_.stateOperators)
            assert(operators.map(_.customMetrics.get("numProcessingTimersFired").longValue).sum == fired)
          }
        })
      }
      watched.only
    }
    val later = timesWith(3600000L, fired = 0)
    val column = Column.OfKeyed.collectFirst {
      case figure: Figure if figure.title == "Next processing timer after" => figure
    }.get
    assert(later.valuesOf(column.metrics.head).toSeq.distinct == Seq(3600000L))
    assert(column.of(later) == "1.0 h")
    assert(later.valuesOf("number of timers waiting").sum == 2)
    assert(later.valuesOf("time to the next event-time timer").isEmpty)
    val gone = timesWith(1L, fired = 2)
    assert(gone.valuesOf(column.metrics.head).isEmpty && column.of(gone) == "")
    assert(gone.valuesOf("number of timers waiting").sum == 0)
  }

  test("a running task's figures come with heartbeats, and are replaced by those at its end") {
    val watched = new Watched
    watched.during {
      val calls = SpecBuilder.asyncIO(spark.range(0, 3, 1, 1).toDF(), classOf[OddFails], "x long") { spec =>
        spec.put("on_error", "null"): Unit
      }
      calls.collect(): Unit
    }
    // The same events, with a heartbeat before the task's end.
    val replayed = new Replayed
    watched.events.foreach { event =>
      event match {
        case end: SparkListenerTaskEnd =>
          val halfway = end.taskInfo.accumulables.toSeq.flatMap { info =>
            if (info.name.contains("calls")) Some(info.copy(update = Some(2L), value = None)) else None
          }
          val update = Seq((end.taskInfo.taskId, end.stageId, end.stageAttemptId, halfway))
          replayed.listener.onExecutorMetricsUpdate(SparkListenerExecutorMetricsUpdate("driver", update))
          if (halfway.nonEmpty) {
            // A copy of the task fails.
            val copy = new TaskInfo(-7L, 0, 1, 0, 0L, "driver", "host", TaskLocality.ANY, true)
            replayed.listener.onTaskStart(SparkListenerTaskStart(end.stageId, end.stageAttemptId, copy))
            val its = Seq((copy.taskId, end.stageId, end.stageAttemptId, halfway))
            replayed.listener.onExecutorMetricsUpdate(SparkListenerExecutorMetricsUpdate("driver", its))
            replayed.flush()
            assert(replayed.only.valuesOf("calls").toSeq == Seq(4))
            copy.markFinished(TaskState.FAILED, 1L)
            replayed.listener.onTaskEnd(
              SparkListenerTaskEnd(end.stageId, end.stageAttemptId, "", TaskKilled("late"), copy, null, null)
            )
            replayed.flush()
            assert(replayed.only.valuesOf("calls").toSeq == Seq(2))
          }
        case _ => ()
      }
      replayed.read(event): Unit
    }
    assert(replayed.only.valuesOf("calls").toSeq == Seq(3))
  }

  test("no plan is kept, though reports of its operators may come late") {
    val watched = new Watched
    val calls = SpecBuilder.asyncIO(spark.range(0, 3, 1, 1).toDF(), classOf[OddFails], "x long") { spec =>
      spec.put("on_error", "null"): Unit
    }
    watched.during(calls.collect(): Unit)
    val replayed = new Replayed(isLive = true)
    val plans = watched.events.filter(_.logEvent).flatMap(event => plansOf(replayed.read(event)))
    assert(plans.nonEmpty)
    eventually {
      System.gc()
      assert(plans.forall(_.get == null))
    }
    assert(replayed.only.valuesOf("calls").toSeq == Seq(3))
  }

  private def plansOf(event: SparkListenerEvent): Seq[WeakReference[SparkPlanInfo]] = {
    def all(plan: SparkPlanInfo): Seq[SparkPlanInfo] = plan +: plan.children.flatMap(all)
    event match {
      case start: SparkListenerSQLExecutionStart => all(start.sparkPlanInfo).map(new WeakReference(_))
      case _ => Nil
    }
  }

  test("who reads cached rows makes no line of its own") {
    val cached = SpecBuilder.asyncIO(spark.range(0, 4, 1, 1).toDF(), classOf[OddFails], "x long") { spec =>
      spec.put("on_error", "null"): Unit
    }
    cached.persist()
    try {
      val watched = new Watched
      watched.during((1 to 3).foreach(_ => cached.collect(): Unit))
      assert(watched.only.valuesOf("calls").sum == 4)
    } finally cached.unpersist(): Unit
  }

  test("the page shows operators, and behind a name its partitions; names are text") {
    val watched = new Watched
    val df = spark.range(0, 10, 1, 2).toDF()
    val calls = SpecBuilder.asyncIO(df, classOf[OddFails], "x long") { spec =>
      spec.put("on_error", "null").put("name", "<b>price</b>"): Unit
    }
    watched.during(calls.collect(): Unit)
    withPages(watched.store, watched.live) { read =>
      val page = read("/pillarbox/")
      assert(page.contains("&lt;b&gt;price&lt;/b&gt;") && !page.contains("<b>price"))
      val link = "href=\"[^\"]*(/pillarbox/operator/\\?id=[^\"]*)\"".r.findFirstMatchIn(page).get.group(1)
      assert("<tr>".r.findAllIn(read(link)).size == 2)
      assert(read("/pillarbox/operator/?id=99").contains("no figures of this operator"))
    }
  }

  test("a streaming query's line leads to the query's page, where there is one") {
    val watched = new Watched
    var run = ""
    withFolder { folder =>
      val stream = new Stream(folder)
      stream.add(Event("a", 1, 1000))
      watched.during(stream.running(process(stream.input, Spec())) { query =>
        query.processAllAvailable()
        run = query.runId.toString
      })
    }
    assert(watched.only.run == run && watched.again.only.run == run)
    val link = s"/StreamingQuery/statistics/?id=$run"
    withPages(watched.store, watched.live)(read => assert(!read("/pillarbox/").contains(link)))
    withPages(watched.store, watched.live, new SparkUITab(_, "StreamingQuery") {}) { read =>
      assert(read("/pillarbox/").contains(link))
    }
  }

  test("a context that takes no tab is not asked again, and the next one is") {
    val (broken, next) = (new Object, new Object)
    var asked = Seq.empty[Object]
    Seq(broken, broken, next, next).foreach { context =>
      OperatorsTab.unlessRefused(context) {
        asked :+= context
        if (context eq broken) throw new IllegalStateException("it stops")
      }
    }
    assert(asked == Seq(broken, next, next))
  }

  test("what a history server keeps on its disk is read as it was written") {
    val serializer = new KVStoreScalaSerializer
    val partitions = Array(new PartitionFigures(7, Array(1L, -1L)))
    val figures =
      new OperatorFigures(
        1L,
        "AsyncIO",
        "name",
        "",
        "",
        3L,
        1L,
        5L,
        Array("a", "b"),
        Array("sum", "size"),
        partitions
      )
    val read = serializer.deserialize(serializer.serialize(figures), classOf[OperatorFigures])
    assert(shown(read) == shown(figures) && read.updated == 5L)
  }

  private def metricsOf(columns: Seq[Column]): Seq[String] =
    columns.collect { case figure: Figure => figure.metrics }.flatten

  private def shown(operator: OperatorFigures): Seq[Any] = Seq(
    operator.id,
    operator.kind,
    operator.name,
    operator.query,
    operator.run,
    operator.execution,
    operator.runs,
    operator.metrics.toSeq,
    operator.types.toSeq,
    operator.partitions.toSeq.map(one => one.partition -> one.values.toSeq)
  )

  /** The figures of what runs meanwhile, and all of Spark's events of it. */
  private final class Watched {
    val store = new ElementTrackingStore(new InMemoryStore, spark.sparkContext.getConf)
    def live: LiveFigures = listener.live
    val events = ArrayBuffer.empty[SparkListenerEvent]
    private val listener = new OperatorsListener(store, isLive = true)

    def during(body: => Unit): Unit = {
      val bus = spark.sparkContext.listenerBus
      Seq(listener, recorder).foreach(bus.addToStatusQueue)
      try body
      finally {
        bus.waitUntilEmpty(60000L)
        Seq(listener, recorder).foreach(bus.removeListener)
      }
    }

    private object recorder extends SparkFirehoseRecorder(events)

    def only: OperatorFigures = onlyOf(store)

    def again: Replayed = {
      val replayed = new Replayed
      events.filter(_.logEvent).foreach(replayed.read(_): Unit)
      replayed
    }
  }

  /** The figures of events that are read from a log. */
  private final class Replayed(isLive: Boolean = false) {
    private val store = new ElementTrackingStore(new InMemoryStore, spark.sparkContext.getConf)
    val listener: OperatorsListener =
      if (isLive) new OperatorsListener(store, isLive)
      else
        new OperatorsHistoryPlugin()
          .createListeners(spark.sparkContext.getConf, store)
          .head
          .asInstanceOf[OperatorsListener]
    private val bus = new ReplayListenerBus
    bus.addListener(listener)

    /** Returns the event as it is read. */
    def read(event: SparkListenerEvent): SparkListenerEvent = {
      val read = JsonProtocol.sparkEventFromJson(JsonProtocol.sparkEventToJsonString(event))
      bus.postToAll(read)
      read
    }

    def flush(): Unit = listener.flush()

    def only: OperatorFigures = onlyOf(store)
  }

  private def onlyOf(store: ElementTrackingStore): OperatorFigures = {
    val all = store.view(classOf[OperatorFigures]).asScala.toSeq
    assert(all.size == 1, all.map(_.id))
    all.head
  }

  private def withPages(
      store: ElementTrackingStore,
      live: LiveFigures,
      others: SparkUI => SparkUITab*
  )(body: (String => String) => Unit): Unit = {
    val sc = spark.sparkContext
    val conf = sc.getConf.set("spark.ui.port", "0")
    val ui = SparkUI.create(None, new AppStatusStore(store), conf, sc.env.securityManager, "tests", "", 0L)
    new OperatorsTab(store, ui, live): Unit
    others.foreach(other => ui.attachTab(other(ui)))
    ui.bind()
    ui.attachAllHandlers()
    try body(path => Using.resource(Source.fromURL(ui.webUrl + path))(_.mkString))
    finally ui.stop()
  }
}

/** Keeps all events. */
private class SparkFirehoseRecorder(events: ArrayBuffer[SparkListenerEvent])
    extends org.apache.spark.SparkFirehoseListener {
  override def onEvent(event: SparkListenerEvent): Unit = events += event: Unit
}
