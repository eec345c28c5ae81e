package io.pillarbox.spark.connect

import java.util.Optional

import scala.jdk.OptionConverters._

import io.pillarbox.spark.PythonBridge
import io.pillarbox.spark.base.SpecJson
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connect.planner.SparkConnectPlanner
import org.apache.spark.sql.connect.plugin.RelationPlugin
import org.apache.spark.sql.pillarbox.{ConnectAdapter, SparkAdapter}

/**
 * Plans the library's operators for the clients of a Spark Connect server, which names this class in
 * `spark.connect.extensions.relation.classes`. The server's threads call it, several at a time.
 */
private[pillarbox] final class PillarboxRelations extends RelationPlugin {

  /**
   * @param relation a `google.protobuf.Any`
   * @return nothing for a message of another plugin
   * @throws java.lang.IllegalArgumentException for a client of another version
   */
  override def transform(relation: Array[Byte], planner: SparkConnectPlanner): Optional[LogicalPlan] =
    OperatorMessage.parse(relation).map(plan(_, new ConnectAdapter(planner))).toJava

  private def plan(message: OperatorMessage, connect: ConnectAdapter): LogicalPlan =
    if (message.kind == "hello") connect.text(PythonBridge.buildVersion, PythonBridge.sparkVersion)
    else {
      requireSameVersion(message.version)
      SparkAdapter.analyzedPlan(dataFrame(message, connect))
    }

  private def dataFrame(message: OperatorMessage, connect: ConnectAdapter): DataFrame = {
    def input = connect.dataFrame(message.input.getOrElse(lacks(message, "an input")))
    def function = message.function.map(connect.function).orNull
    message.kind match {
      case "async_io" => PythonBridge.asyncIO(input, function, message.spec)
      case "process_keyed" =>
        val initial = message.initial.map(connect.dataFrame).orNull
        PythonBridge.processKeyed(input, function, message.spec, initial)
      case "read_state" => PythonBridge.readState(connect.session, message.spec)
      case "purge_journal" =>
        connect.rows(PythonBridge.purgeJournal(connect.session, message.spec).toString)
      case "plan_udfs" =>
        val asked = SpecJson.read[PillarboxRelations.Udf](message.spec)
        PythonBridge.planUdfs(connect.session, asked.journal.orNull)
        connect.rows(asked.name)
      case "progress" =>
        val asked = SpecJson.read[PillarboxRelations.Progress](message.spec)
        connect.rows(PythonBridge.progress(connect.session, asked.progress, asked.goesOn))
      case "usage" =>
        val query = SpecJson.read[PillarboxRelations.UsageOf](message.spec).query.orNull
        connect.rows(PythonBridge.usage(message.input.map(connect.dataFrame).orNull, query))
      case "failure" =>
        val asked = SpecJson.read[PillarboxRelations.Failed](message.spec)
        connect.rows(Option(PythonBridge.failureOf(asked.text)).getOrElse(""))
      case look => connect.rows(PythonBridge.lookUp(connect.session, look, message.spec))
    }
  }

  private def requireSameVersion(client: String): Unit =
    if (client != PythonBridge.version)
      throw new IllegalArgumentException(
        s"The Spark Connect server has Pillarbox ${PythonBridge.version}, and its client has $client: " +
          "both need the same version."
      )

  private def lacks(message: OperatorMessage, what: String): Nothing =
    throw new IllegalArgumentException(s"The message of ${message.kind} lacks $what.")
}

private object PillarboxRelations {

  /** What `PythonBridge.planUdfs` is to plan. */
  private final case class Udf(name: String, journal: Option[String])

  /** A question of `PythonBridge.progress`. */
  private final case class Progress(progress: String, goesOn: Boolean)

  /** A question of `PythonBridge.failureOf`. */
  private final case class Failed(text: String)

  /** A question of `PythonBridge.usage`: about a query, or about the message's input. */
  private final case class UsageOf(query: Option[String])
}
