package io.pillarbox.spark

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import io.pillarbox.spark.async._
import io.pillarbox.spark.base.{Build, PillarboxConf, RecentFailures, SpecJson}
import io.pillarbox.spark.inspect.{CheckpointCatalog, StateAddress, StateReader}
import io.pillarbox.spark.journal.JournalPurge
import io.pillarbox.spark.keyed.jvm.JvmKeyedOperator
import io.pillarbox.spark.keyed.python.PythonKeyedOperator
import io.pillarbox.spark.keyed.{KeyedOperatorFactory, KeyedSpec}
import io.pillarbox.spark.plan.{AsyncIOPlanner, KeyedPlanner, PillarboxStrategy, PlannedCalls, ReadState}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.pillarbox.{DriverMessages, PythonDriver, SparkAdapter, UserFunction}
import org.apache.spark.sql.{DataFrame, SparkSession}

/** The only class that Python calls: by py4j, or from a Spark Connect client by messages. On the driver. */
private[pillarbox] object PythonBridge {

  /** The version of this jar; the Python package must have the same. */
  def version: String = Build.version

  /** The version, and for a development build behind a + the commit, if it is known. */
  def buildVersion: String = Build.buildVersion

  /** The line of Spark that this jar was built for, as in "4.2". */
  def sparkVersion: String = Build.sparkVersion

  /** Returns the report of a recent error as JSON, or null; `text` is what begins with its text. */
  def failureOf(text: String): String = RecentFailures.find(text).map(SpecJson.write(_)).orNull

  /**
   * Tells the driver's Python what the log says of failed calls, from now on.
   *
   * @param server PySpark's `_javaAccumulator`
   * @param accumulator the number of the accumulator, of lists of texts, that is added to
   */
  def listen(server: AnyRef, accumulator: Long): Unit = PythonDriver.listen(server, accumulator)

  /**
   * Returns a DataFrame that calls a function for each row of `df`.
   *
   * @param function
   *   PySpark's `SimplePythonFunction`; where the spec names an `io.pillarbox.api.AsyncFunction` null, or
   *   the environment of functions in Python beside it
   * @param specJson an [[AsyncIOSpec]] as JSON
   */
  def asyncIO(df: DataFrame, function: AnyRef, specJson: String): DataFrame = {
    val spec = SpecJson.read[AsyncIOSpec](specJson)
    val python = Option(function).map(UserFunction.of)
    val called = python.filter(_ => spec.className.isEmpty).map(AsyncIOFunction.Python)
    new AsyncIOPlanner(df, spec).dataFrame(
      called.getOrElse(AsyncIOFunction.Jvm(className(spec.name, spec.className), spec.options)),
      python
    )
  }

  /**
   * Makes `session` plan the calls of `pb.async_udf`, though it may be older than the jar.
   *
   * @param journal the path of the journal of one of them; null, or empty, if it has none to be looked for
   * @throws IllegalArgumentException
   *   for a setting `spark.pillarbox.*` that has no meaning, and (JOURNAL_UNREACHABLE) if there is no file
   *   system for the journal
   */
  def planUdfs(session: SparkSession, journal: String): Unit = {
    PillarboxConf.check(SparkAdapter.sqlConf(session))
    PillarboxStrategy.registerUdfs(session)
    Option(journal)
      .filter(_.nonEmpty)
      .foreach(JournalFolder.qualified(_, SparkAdapter.hadoopConf(session)))
  }

  /**
   * Returns a DataFrame that processes each key of `df` with state and timers.
   *
   * @param function PySpark's `SimplePythonFunction`; null for the forms that need no Python
   * @param specJson a [[KeyedSpec]] as JSON
   * @param initial the state that the query starts with: the key columns, a column for each entry of the
   *   spec's `initial`, and one that rows are sorted by; null for none
   */
  def processKeyed(df: DataFrame, function: AnyRef, specJson: String, initial: DataFrame): DataFrame = {
    val spec = SpecJson.read[KeyedSpec](specJson)
    val planner = new KeyedPlanner(df, spec, Option(initial))
    spec.scan.fold(planner.dataFrame(keyedFactory(spec, function)))(planner.scan)
  }

  private def keyedFactory(spec: KeyedSpec, function: AnyRef): KeyedOperatorFactory = spec.form match {
    case "jvm" => JvmKeyedOperator.Factory(className(spec.name, spec.className), spec.options)
    case "row" | "arrow" => PythonKeyedOperator.Factory(spec.form, UserFunction.of(function))
    case other =>
      throw new IllegalArgumentException(
        s"${spec.name}: the form of a keyed function is row, arrow, jvm or scan, found \"$other\""
      )
  }

  /**
   * Returns the contents of a checkpoint, as a JSON list: "stored_operators" as `{"id", "name"}` (none if
   * there is no checkpoint), "stored_versions" that can be read, or the names of "stored_states" in a
   * version.
   *
   * @param addressJson a [[io.pillarbox.spark.inspect.StateAddress]] as JSON
   * @throws java.lang.IllegalArgumentException (CHECKPOINT_UNREACHABLE)
   */
  def lookUp(session: SparkSession, kind: String, addressJson: String): String = {
    val address = SpecJson.read[StateAddress](addressJson)
    val catalog = new CheckpointCatalog(session, address.checkpoint)
    val found: Seq[Any] = kind match {
      case "stored_operators" =>
        catalog.operators.map { case (id, note) =>
          java.util.Map.of[String, Any]("id", id, "name", note.name)
        }
      case "stored_versions" => catalog.versions(address.operator)
      case "stored_states" => catalog.states(address.operator, address.version).map(_.name)
      case other => throw new IllegalArgumentException(s"Pillarbox knows no operator \"$other\".")
    }
    new ObjectMapper().writeValueAsString(found.asJava)
  }

  /**
   * Returns a DataFrame of a state's entries, or of the timers. It reads them when it is read.
   *
   * @param addressJson a [[io.pillarbox.spark.inspect.StateAddress]] as JSON
   * @throws java.lang.IllegalArgumentException if there is no such state
   */
  def readState(session: SparkSession, addressJson: String): DataFrame = {
    val reader = StateReader(session, SpecJson.read[StateAddress](addressJson))
    val node = ReadState(reader, DataTypeUtils.toAttributes(reader.schema))
    PillarboxStrategy.register(session, node)
    SparkAdapter.ofRows(session, node)
  }

  /**
   * Deletes answers of a journal, and returns their number. Blocks.
   *
   * @param purgeJson a [[io.pillarbox.spark.journal.JournalPurge]] as JSON
   * @throws java.lang.IllegalArgumentException if there is no such journal, or operator in it
   */
  def purgeJournal(session: SparkSession, purgeJson: String): Long =
    SpecJson.read[JournalPurge](purgeJson).run(session)

  /**
   * Returns the figures of the calls of tagged actions, as `CallProgress` has them, and hides Spark's own
   * progress bar for half a second if there are any.
   *
   * @param progress the tag
   * @param goesOn true before and during the actions, false for the last time
   */
  def progress(session: SparkSession, progress: String, goesOn: Boolean): String = {
    if (CallProgress.areThere(progress)) SparkAdapter.hideProgressBar(session.sparkContext)
    val told = CallProgress.json(progress)
    if (goesOn) CallProgress.watch(progress) else CallProgress.forget(progress)
    told
  }

  /**
   * Returns what calls have cost so far, as `UsageRegistry` has it: those of the operators in the plan of `df`,
   * or those of a streaming query.
   *
   * @param df null for a query
   * @param query its id; null for a DataFrame
   */
  def usage(df: DataFrame, query: String): String = {
    DriverMessages.settle()
    if (df == null) UsageRegistry.ofDriver.ofQuery(query)
    else UsageRegistry.ofDriver.ofOperators(PlannedCalls.in(df))
  }

  private def className(operator: String, named: Option[String]): String = named.getOrElse(
    throw new IllegalArgumentException(s"$operator: a function of the JVM needs a class name")
  )
}
