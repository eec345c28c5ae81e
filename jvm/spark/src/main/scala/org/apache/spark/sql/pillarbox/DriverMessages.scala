package org.apache.spark.sql.pillarbox

import java.util.concurrent.ConcurrentHashMap

import scala.concurrent.{ExecutionContext, Future}
import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag
import scala.util.control.NonFatal
import scala.util.{Failure, Success}

import org.apache.spark.rpc._
import org.apache.spark.scheduler._
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd
import org.apache.spark.sql.pillarbox.Spark41.StreamExecution
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent
import org.apache.spark.util.RpcUtils
import org.apache.spark.{SparkContext, SparkEnv, TaskContext}
import org.slf4j.LoggerFactory

/**
 * The messages between executors and the driver, also between micro-batches, over Spark's own RPC. They are
 * of standard types, which Spark reads without the class path of the application. No thread waits for an
 * answer; a message may be lost with an executor. Written for Spark 4.2.
 */
object DriverMessages {
  private val log = LoggerFactory.getLogger(getClass)
  private final val Driver = "pillarbox-driver"
  private final val Executor = "pillarbox-executor"
  private final val Wake = "wake"
  private final val Fail = "fail"
  private final val Close = "close"
  private final val Here = "here"
  private final val Lend = "lend"
  private final val First = "first"
  private final val Failed = "failed"
  private final val Report = "report"
  private final val OfUsage = "usage"
  private final val Latencies = "latencies"
  private final val Hottest = "hottest"
  private final val Ended = "ended"
  private final val Settle = "settle"

  /** The beginning of the tag of an action whose calls are watched; the whole tag names the progress. */
  private final val Tag = "pillarbox-progress-"

  private var served: SparkEnv = _
  private val executors = new ConcurrentHashMap[String, RpcEndpointRef]

  /** Lets messages reach `listener`. On the driver, before tasks are made, once for a SparkContext. */
  def serve(
      context: SparkContext,
      listener: Listener,
      lender: Lender,
      failures: Failures,
      watcher: Watcher,
      usageReceiver: UsageReceiver
  ): Unit = synchronized {
    val env = SparkEnv.get
    if (served ne env) {
      served = env
      executors.clear()
      lender.applicationBegins()
      val reports = context.listenerBus.post(_: OperatorReport)
      val endpoint =
        new DriverEndpoint(env.rpcEnv, listener, lender, failures, watcher, usageReceiver, reports)
      env.rpcEnv.setupEndpoint(Driver, endpoint)
      context.addSparkListener(new SparkListener {
        override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
          // A message, to be read behind those of the run's tasks.
          case end: SparkListenerSQLExecutionEnd => tell((Ended, end.executionId.toString))
          case end: QueryTerminatedEvent =>
            tell((Ended, end.id.toString))
            lender.ended(end.runId.toString)
          case _ => ()
        }
        override def onStageCompleted(stage: SparkListenerStageCompleted): Unit =
          watcher.onStageEnd(stage.stageInfo.stageId.toLong)
        override def onExecutorRemoved(removed: SparkListenerExecutorRemoved): Unit = {
          executors.remove(removed.executorId)
          listener.onExecutorLost()
        }
      })
    }
  }

  /** Lets every executor close what it has of a query's run. On the driver. */
  def closeRun(runId: String): Unit = executors.values.asScala.foreach(_.send((Close, runId)))

  private var announced: SparkEnv = _
  private var driver: RpcEndpointRef = _
  private var driverOf: SparkEnv = _

  /** Connects at first use, and blocks meanwhile. */
  private def driverIn(env: SparkEnv): RpcEndpointRef = synchronized {
    if (driverOf ne env) {
      driver = RpcUtils.makeDriverRef(Driver, env.conf, env.rpcEnv)
      driverOf = env
    }
    driver
  }

  /** Has `close` run from now on for each run of a query that ends. On an executor. Any thread. */
  def announce(close: String => Unit): Unit = synchronized {
    val env = SparkEnv.get
    if (announced ne env) {
      val driver = driverIn(env) // first, since a name can be given to an endpoint only once
      val here = env.rpcEnv.setupEndpoint(Executor, new ExecutorEndpoint(env.rpcEnv, close))
      announced = env
      driver.send((Here, env.executorId, here))
    }
  }

  /** Reports that a version has something for the next micro-batch. After `announce`. Any thread. */
  def wake(key: String, version: Long): Unit = tell((Wake, key, version))

  /** Reports that a partition's work between micro-batches has failed. After `announce`. Any thread. */
  def fail(key: String, partition: Int): Unit = tell((Fail, key, partition))

  /**
   * Names the streaming query, or the action of a batch, that a task works for; empty for neither. An RDD
   * outlives the action that made it, so only the task knows.
   */
  def runOf(task: TaskContext): String =
    Option(task.getLocalProperty(StreamExecution.QUERY_ID_KEY))
      .orElse(Option(task.getLocalProperty(SQLExecution.EXECUTION_ROOT_ID_KEY)))
      .getOrElse("")

  /** Names the same, another one for each start of a streaming query, in all applications. */
  def startOf(task: TaskContext): String = {
    val group = task.getLocalProperty("spark.jobGroup.id")
    val application = Option(SparkEnv.get).fold("")(_.conf.get("spark.app.id", ""))
    s"$application ${runOf(task)} $group"
  }

  /** Reports the first failure of its kind in a task. On an executor. Any thread. */
  def firstFailure(run: String, operator: String, kind: String, text: String): Unit =
    tell((First, run, operator, kind, text))

  /** Reports how many rows of a task failed, by kind, before the end of the task is reported. Any thread. */
  def failedRows(run: String, operator: String, kinds: Array[String], rows: Array[Long]): Unit =
    tell((Failed, run, operator, kinds, rows))

  /** The progress that watches the action of a task; none of a micro-batch. */
  def watchedBy(task: TaskContext): Option[String] = for {
    tags <- Option(task.getLocalProperty(SparkContext.SPARK_JOB_TAGS))
    if tags.contains(Tag) && task.getLocalProperty(StreamExecution.QUERY_ID_KEY) == null
    tag <- tags.split(SparkContext.SPARK_JOB_TAGS_SEP).find(_.contains(Tag))
  } yield tag.substring(tag.indexOf(Tag))

  /**
   * Reports the figures of a task's calls to a progress. On an executor. Any thread.
   *
   * @param figures those that the watcher knows
   */
  def report(progress: String, operator: String, figures: Array[Long]): Unit =
    tell((Report, progress, operator, figures))

  /**
   * Reports what the calls of a task have cost so far, before its end is reported. Any thread.
   *
   * @param about the run, the operator's id and name, and the reporter's own
   * @param isDone true if it is the reporter's last
   */
  def usage(about: Array[String], amounts: Array[Double], units: Array[String], isDone: Boolean): Unit =
    tell((OfUsage, about, amounts, units, isDone))

  /**
   * Reports latencies of calls to the tab in Spark's UI. Any thread; does not block.
   *
   * @param metric the id of one of the metrics of the operator's node
   * @param counts of what has come since the last report, see [[CallLatencies]]
   */
  def latencies(metric: Long, counts: Array[Long]): Unit = show((Latencies, metric, counts))

  /**
   * Reports the key with most rows of a partition to the tab in Spark's UI; see [[HottestKey]]. Any thread;
   * does not block.
   */
  def hottest(metric: Long, partition: Int, key: String, rows: Double, of: Double): Unit =
    show((Hottest, metric, partition, key, rows, of))

  /** Waits until the driver has read what tasks have told that have ended. On the driver. */
  def settle(): Unit = {
    val env = SparkEnv.get
    if (env != null && synchronized(served eq env)) driverIn(env).askSync[Boolean](Settle): Unit
  }

  /** What is told may be personal data, so the log has only its kind. */
  private def tell(message: Product): Unit =
    try driverIn(SparkEnv.get).send(message)
    catch {
      case e @ (NonFatal(_) | _: InterruptedException) =>
        log.warn(s"The driver was not told '${message.productElement(0)}'", e)
        if (e.isInstanceOf[InterruptedException]) Thread.currentThread.interrupt()
    }

  /** Tells without waiting for a connection; what is told may be lost, or come after the task's end. */
  private def show(message: Product): Unit = {
    implicit val here: ExecutionContext = ExecutionContext.parasitic
    val env = SparkEnv.get
    if (env != null)
      try lenderIn(env).map(_.send(message)).failed.foreach(notShown)
      catch { case NonFatal(e) => notShown(e) }
  }

  private def notShown(failure: Throwable): Unit = {
    log.debug("The driver was not told what Spark's UI shows", failure)
    forgetLender()
  }

  private val lending = new Object
  private var lenderOf: SparkEnv = _
  private var lender: Future[RpcEndpointRef] = _

  /**
   * Reports the use of limits, or of a budget, to the driver's lender. The answer comes on a thread of Spark's
   * RPC, or never. On an executor. Any thread; does not block.
   *
   * @param names those of the limits, one for each report
   */
  def lend(process: String, names: Array[String], reports: Array[Array[Long]])(
      answer: Array[Long] => Unit
  ): Unit = ask[Array[Long]]((Lend, process, names, reports))(answer)

  private def ask[A: ClassTag](message: Product)(answer: A => Unit): Unit = {
    implicit val here: ExecutionContext = ExecutionContext.parasitic
    val env = SparkEnv.get
    if (env != null)
      try
        lenderIn(env)
          .flatMap(_.ask[A](message))
          .onComplete {
            case Success(grant) => answer(grant)
            case Failure(e) =>
              log.debug("The driver can't be asked for its leave to call", e)
              forgetLender()
          }
      catch { case NonFatal(e) => log.debug("The driver can't be asked for its leave to call", e) }
  }

  /** Under a lock of its own, as `driverIn` connects under the other one. */
  private def lenderIn(env: SparkEnv): Future[RpcEndpointRef] = lending.synchronized {
    if (lender == null || (lenderOf ne env)) {
      lenderOf = env
      val host = env.conf.get("spark.driver.host", "localhost")
      val address = RpcAddress(host, env.conf.getInt("spark.driver.port", 7077))
      lender = env.rpcEnv.asyncSetupEndpointRefByURI(RpcEndpointAddress(address, Driver).toString)
    }
    lender
  }

  private def forgetLender(): Unit = lending.synchronized { lender = null }

  /** Receives messages on the driver, on threads of Spark's RPC. Must not block. */
  trait Listener {
    def onWake(key: String, version: Long): Unit
    def onFail(key: String, partition: Int): Unit
    def onExecutorLost(): Unit
  }

  /** Lends parts of limits and budgets on the driver. */
  trait Lender {

    /** Answers a process that uses limits, or spends, now or later. On Spark's RPC. Must not block. */
    def lend(process: String, names: Array[String], reports: Array[Array[Long]])(
        reply: Array[Long] => Unit
    ): Unit

    /** Another SparkContext has begun. */
    def applicationBegins(): Unit

    /** A run of a streaming query has ended. On a thread of Spark's listeners. */
    def ended(run: String): Unit
  }

  /** Takes note of failed calls on the driver, on threads of Spark's. Must not block. */
  trait Failures {

    /** Takes the first failure of its kind that a task has seen. */
    def first(run: String, operator: String, kind: String, text: String): Unit

    /** Takes the rows of a task that failed, by kind. */
    def failed(run: String, operator: String, rows: Seq[(String, Long)]): Unit

    /** An action or a streaming query has ended. */
    def ended(run: String): Unit
  }

  /** Hears how calls get on. On the driver, on threads of Spark's RPC. Must not block. */
  trait Watcher {
    def onReport(progress: String, operator: String, figures: Array[Long]): Unit

    /** No task of the stage runs any more. */
    def onStageEnd(stage: Long): Unit
  }

  /** Takes what calls cost. On the driver, on threads of Spark's. Must not block. */
  trait UsageReceiver {

    /** Takes the amounts of a task so far; see `usage`. */
    def onUsage(about: Array[String], amounts: Array[Double], units: Array[String], isDone: Boolean): Unit

    /** An action or a streaming query has ended. */
    def ended(run: String): Unit
  }

  private final class DriverEndpoint(
      override val rpcEnv: RpcEnv,
      listener: Listener,
      lender: Lender,
      failures: Failures,
      watcher: Watcher,
      usageReceiver: UsageReceiver,
      reports: OperatorReport => Unit
  ) extends ThreadSafeRpcEndpoint {
    override def receive: PartialFunction[Any, Unit] = {
      case (Wake, key: String, version: Long) => listener.onWake(key, version)
      case (Fail, key: String, partition: Int) => listener.onFail(key, partition)
      case (Here, id: String, ref: RpcEndpointRef) => executors.put(id, ref): Unit
      case (First, run: String, operator: String, kind: String, text: String) =>
        failures.first(run, operator, kind, text)
      case (Failed, run: String, operator: String, kinds: Array[String], rows: Array[Long]) =>
        failures.failed(run, operator, kinds.zip(rows).toSeq)
      case (Report, progress: String, operator: String, figures: Array[Long]) =>
        watcher.onReport(progress, operator, figures)
      case (OfUsage, about: Array[String], amounts: Array[Double], units: Array[String], isDone: Boolean) =>
        usageReceiver.onUsage(about, amounts, units, isDone)
      case (Latencies, metric: Long, counts: Array[Long]) => reports(new CallLatencies(metric, counts))
      case (Hottest, metric: Long, partition: Int, key: String, rows: Double, of: Double) =>
        reports(new HottestKey(metric, partition, key, rows, of))
      case (Ended, run: String) =>
        failures.ended(run)
        usageReceiver.ended(run)
    }

    override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = {
      case (Lend, process: String, names: Array[String], reports: Array[Array[Long]]) =>
        lender.lend(process, names, reports)(context.reply(_))
      case Settle => context.reply(true)
    }
  }

  private final class ExecutorEndpoint(override val rpcEnv: RpcEnv, close: String => Unit)
      extends ThreadSafeRpcEndpoint {
    override def receive: PartialFunction[Any, Unit] = { case (Close, runId: String) => close(runId) }
  }
}
