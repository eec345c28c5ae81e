package io.pillarbox.spark.async

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

  /** An `AsyncFunction[Row, Row]` on the executors' class path, made with its options there. */
  final case class Jvm(className: String, options: Map[String, String]) extends AsyncIOFunction
}
