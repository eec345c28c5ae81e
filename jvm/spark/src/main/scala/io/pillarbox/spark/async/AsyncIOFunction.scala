package io.pillarbox.spark.async

import io.pillarbox.async.AsyncOptions
import io.pillarbox.spark.async.python.{CallChannel, PythonAsyncFunction}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.pillarbox.UserFunction

/** The function that an async I/O operator calls. */
private[pillarbox] sealed trait AsyncIOFunction {

  /** Returns the function with the files of the session that the current job belongs to. On the driver. */
  def ofCurrentJob: AsyncIOFunction = this
}

private[pillarbox] object AsyncIOFunction {

  /** A Python function, pickled, with the environment it needs. */
  final case class Python(function: UserFunction) extends AsyncIOFunction {
    override def ofCurrentJob: AsyncIOFunction = copy(function.ofCurrentJob)
  }

  /** A keyed function in Python, which the task's own worker has. */
  case object OfTask extends AsyncIOFunction

  /**
   * The same in the task.
   *
   * @param connect returns how the worker is told of calls; it takes what is to hear of their ends
   * @param adapt changes the options of the operator
   */
  final case class Keyed(
      connect: PythonAsyncFunction => CallChannel,
      adapt: AsyncOptions[InternalRow, InternalRow] => AsyncOptions[InternalRow, InternalRow]
  ) extends AsyncIOFunction

  /** An `AsyncFunction[Row, Row]` on the executors' class path, made with its options there. */
  final case class Jvm(className: String, options: Map[String, String]) extends AsyncIOFunction
}
