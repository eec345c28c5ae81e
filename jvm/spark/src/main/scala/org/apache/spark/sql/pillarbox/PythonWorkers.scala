package org.apache.spark.sql.pillarbox

import java.io.{ByteArrayOutputStream, Closeable, DataOutputStream, File}
import java.net.StandardSocketOptions
import java.nio.channels.SocketChannel
import java.nio.file.Path
import java.util.concurrent.atomic.AtomicBoolean

import scala.jdk.CollectionConverters._

import org.apache.spark.api.python.{PythonWorker, PythonWorkerUtils}
import org.apache.spark.internal.config.Python.{
  PYTHON_AUTH_SOCKET_TIMEOUT,
  PYTHON_DAEMON_MODULE,
  PYTHON_USE_DAEMON,
  PYTHON_WORKER_REUSE
}
import org.apache.spark.internal.config.{BUFFER_SIZE, EXECUTOR_CORES}
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.{JobArtifactSet, SparkEnv, TaskContext}

/**
 * One Python worker process of Spark's own pool, started with this library's worker module.
 *
 * Spark's rules for environments, `PYTHONPATH`, memory limits and reuse apply. `channel` is in blocking mode.
 */
final class LeasedWorker private[pillarbox] (
    key: PythonWorkers.Key,
    worker: PythonWorker,
    knownPid: Option[Long]
) extends Closeable {
  private val returned = new AtomicBoolean
  @volatile private var taken = false

  /** The environment that started it: at the end of an application there is no current one any more. */
  private val sparkEnv = SparkEnv.get

  def channel: SocketChannel = worker.channel

  /** The process id, or -1 if Spark does not tell it. */
  def pid: Long = knownPid.getOrElse(-1L)

  /** The limit of its memory in MiB, if `spark.executor.pyspark.memory` sets one. */
  def memoryLimitMib: Option[String] = key.env.get(PythonWorkers.MemoryLimit)

  /**
   * Gives back a worker that is ready for another task: to Spark's pool, where the next task finds it, or, if
   * workers are not reused, to itself, so that it closes its resources and ends.
   */
  def release(): Unit = if (returned.compareAndSet(false, true)) {
    if (PythonWorkers.reuseEnabled(sparkEnv))
      sparkEnv.releasePythonWorker(key.exec, PythonWorkers.Module, key.daemon, key.env, worker)
    else worker.stop()
  }

  /**
   * Kills the process, once, as its id may belong to another one later; false if it was given back or killed
   * before. Any thread.
   */
  def destroy(): Boolean = {
    val isOurs = returned.compareAndSet(false, true)
    if (isOurs) sparkEnv.destroyPythonWorker(key.exec, PythonWorkers.Module, key.daemon, key.env, worker)
    isOurs
  }

  /** Leaves it to the taker to give the worker back, perhaps some time after its task. */
  private[pillarbox] def take(): LeasedWorker = {
    taken = true
    this
  }

  /** Kills, at the end of the task, a process that the task never got because it was killed meanwhile. */
  override def close(): Unit = if (!taken) destroy(): Unit

  /** The bytes that pyspark's own worker reads first: Python version, Spark's files, broadcast variables. */
  def preamble(function: UserFunction): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    val python = function.function
    PythonWorkerUtils.writePythonVersion(python.pythonVer, out)
    PythonWorkerUtils.writeSparkFiles(function.artifactId, python.pythonIncludes.asScala.toSet, out)
    PythonWorkerUtils.writeBroadcasts(python.broadcastVars.asScala.toSeq, worker, SparkEnv.get, out)
    out.flush()
    bytes.toByteArray
  }
}

/** Adapter to `SparkEnv.createPythonWorker` and its pool, which are `private[spark]`, of Spark 4.2. */
object PythonWorkers {

  /** The module that Spark's daemon runs. Without "pyspark" at the start it runs pyspark's own instead. */
  val Module = "pyspark_pillarbox"

  /** The variable of PySpark's own worker for its memory in MiB. */
  private[pillarbox] val MemoryLimit = "PYSPARK_EXECUTOR_MEMORY_MB"

  /**
   * Lets glibc keep up to 128 MiB that a worker has freed, in blocks of up to 32 MiB, which is its limit. By
   * default it returns blocks of some hundred KiB at once, and a frame of columns then has its 80 MB mapped
   * and zeroed page by page, which takes longer than the work on it.
   */
  private val KeptMemory = Map(
    "MALLOC_MMAP_THRESHOLD_" -> (32 << 20).toString,
    "MALLOC_TRIM_THRESHOLD_" -> (128 << 20).toString
  )

  private final val Interpreter = "spark.sql.execution.pyspark.python"

  private[pillarbox] final case class Key(exec: String, daemon: String, env: Map[String, String])

  /** True if a worker may serve another task after this one (`spark.python.worker.reuse`). */
  def reuseEnabled: Boolean = reuseEnabled(SparkEnv.get)

  private[pillarbox] def reuseEnabled(env: SparkEnv): Boolean = env.conf.get(PYTHON_WORKER_REUSE)

  /** The folder in which each worker keeps the end of its stderr, in the file `pillarbox-stderr-<pid>`. */
  def stderrFolder: Path = SparkEnv.get.blockManager.diskBlockManager.localDirs.head.toPath

  /** The artifact set of the job that this thread of the driver is about to submit. */
  private[pillarbox] def currentArtifactId: Option[String] =
    JobArtifactSet.getCurrentJobArtifactState.map(_.uuid)

  /**
   * Takes an idle worker of the same environment from the pool, or starts one. Blocks until it has connected.
   *
   * A task that is killed meanwhile is interrupted afterwards: Spark takes an interrupt here for the end of
   * its daemon, and starts a new one, which ends all other workers of the old one.
   *
   * @param sources the folder or jar with this library's Python sources, put first on the worker's path so
   *   that versions agree
   */
  def lease(
      function: UserFunction,
      sources: String,
      context: TaskContext
  ): LeasedWorker = context.createResourceUninterruptibly(connect(function, sources, context)).take()

  private def connect(function: UserFunction, sources: String, context: TaskContext): LeasedWorker = {
    val conf = SparkEnv.get.conf
    val env = environment(function, sources, context)
    val daemon = conf.get(PYTHON_DAEMON_MODULE).getOrElse("pyspark.daemon")
    val key = Key(interpreter(function, context), daemon, env)
    val (worker, handle) =
      SparkEnv.get.createPythonWorker(key.exec, Module, key.daemon, key.env, conf.get(PYTHON_USE_DAEMON))
    toBlocking(worker)
    sendAtOnce(worker.channel)
    new LeasedWorker(key, worker, handle.flatMap(Spark43.pidOf))
  }

  /** Spark's own setting goes first, which may name an environment that the session's artifacts bring. */
  private def interpreter(function: UserFunction, context: TaskContext): String =
    Option(context.getLocalProperty(Interpreter))
      .orElse(Option(SQLConf.get.getConfString(Interpreter, null)))
      .getOrElse(function.function.pythonExec)

  private def environment(
      function: UserFunction,
      sources: String,
      context: TaskContext
  ): Map[String, String] = {
    val conf = SparkEnv.get.conf
    val own = function.environment
    val path = (sources +: own.get("PYTHONPATH").toSeq).mkString(File.pathSeparator)
    val cores = Option(context.getLocalProperty(ResourceProfile.EXECUTOR_CORES_LOCAL_PROPERTY))
      .fold(conf.get(EXECUTOR_CORES))(_.toInt)
    val memory = Option(context.getLocalProperty(ResourceProfile.PYSPARK_MEMORY_LOCAL_PROPERTY))
      .map(mib => MemoryLimit -> (mib.toLong / cores).toString)
    val threads = Option.when(conf.getOption("spark.executorEnv.OMP_NUM_THREADS").isEmpty)(
      "OMP_NUM_THREADS" -> conf.get("spark.task.cpus", "1")
    )
    val reuse = Option.when(reuseEnabled)("SPARK_REUSE_WORKER" -> "1")
    val kept = KeptMemory.filterNot { case (name, _) => own.contains(name) || sys.env.contains(name) }
    own ++ memory ++ threads ++ reuse ++ kept ++ Map(
      "PYTHONPATH" -> path,
      "SPARK_LOCAL_DIRS" -> SparkEnv.get.blockManager.diskBlockManager.localDirsString.mkString(","),
      "SPARK_AUTH_SOCKET_TIMEOUT" -> conf.get(PYTHON_AUTH_SOCKET_TIMEOUT).toString,
      "SPARK_BUFFER_SIZE" -> conf.get(BUFFER_SIZE).toString,
      "SPARK_JOB_ARTIFACT_UUID" -> function.artifactId.getOrElse("default"),
      "SPARK_PYTHON_RUNTIME" -> "PYTHON_WORKER",
      "PILLARBOX_STDERR_DIR" -> stderrFolder.toString
    )
  }

  /** Spark registers the channel with a selector; two threads can only use it when it blocks. */
  private def toBlocking(worker: PythonWorker): Unit = {
    if (worker.selectionKey != null) worker.selectionKey.cancel()
    if (worker.selector != null) worker.selector.close()
    worker.channel.configureBlocking(true)
    ()
  }

  /**
   * Switches Nagle's algorithm off, which Spark leaves on: a small frame behind another small one then waits
   * 40 ms for the worker's acknowledgement. Unix domain sockets have none.
   */
  private[pillarbox] def sendAtOnce(channel: SocketChannel): Unit =
    if (channel.supportedOptions.contains(StandardSocketOptions.TCP_NODELAY)) {
      channel.setOption(StandardSocketOptions.TCP_NODELAY, java.lang.Boolean.TRUE)
      ()
    }
}
