package org.apache.spark.sql.pillarbox

import scala.jdk.CollectionConverters._

import org.apache.spark.api.python.{PythonEvalType, PythonFunction, SimplePythonFunction}
import org.apache.spark.sql.catalyst.expressions.{Expression, PythonUDF}
import org.apache.spark.sql.types.DataType

/**
 * A pickled Python function with the environment it needs: interpreter, `PYTHONPATH`, files, broadcast
 * variables. Wraps Spark's `PythonFunction`, which is `private[spark]`.
 */
final class UserFunction private (
    private[pillarbox] val function: PythonFunction,
    private[pillarbox] val artifactId: Option[String]
) extends Serializable {

  /**
   * Returns the function with the artifacts of the job that the calling thread is about to submit, as Spark
   * Connect's sessions have them. A stream runs in a copy of its session, which has artifacts of its own. On
   * the driver.
   */
  def ofCurrentJob: UserFunction = new UserFunction(function, PythonWorkers.currentArtifactId)

  def command: Array[Byte] = function.command.toArray

  /** Two functions are equal if their pickles are, so that Spark can reuse a plan's result. */
  override def equals(other: Any): Boolean = other match {
    case that: UserFunction => function.command == that.function.command
    case _ => false
  }

  override def hashCode: Int = function.command.hashCode

  /**
   * Returns a UDF of Spark that has the same environment.
   *
   * @param pickled a function and its type in Python, as PySpark pickles them for a UDF of rows
   */
  def udf(name: String, pickled: Array[Byte], returns: DataType, arguments: Seq[Expression]): PythonUDF = {
    val own = new SimplePythonFunction(
      pickled,
      function.envVars,
      function.pythonIncludes,
      function.pythonExec,
      function.pythonVer,
      function.broadcastVars,
      function.accumulator
    )
    PythonUDF(name, own, returns, arguments, PythonEvalType.SQL_BATCHED_UDF, udfDeterministic = true)
  }

  /** Adds a task's update to an accumulator of Python; Spark drops it if the task fails. */
  def accumulate(update: Array[Byte]): Unit = Option(function.accumulator).foreach(_.add(update))

  private[pillarbox] def environment: Map[String, String] = function.envVars.asScala.toMap
}

object UserFunction {

  /** @param function a `SimplePythonFunction`, as PySpark makes it */
  def of(function: AnyRef): UserFunction = function match {
    case python: PythonFunction => new UserFunction(python, None)
    case other =>
      throw new IllegalArgumentException(s"A PythonFunction is needed, found ${other.getClass.getName}")
  }
}
