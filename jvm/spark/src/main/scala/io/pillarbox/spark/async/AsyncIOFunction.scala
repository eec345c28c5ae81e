package io.pillarbox.spark.async

import org.apache.spark.sql.pillarbox.UserFunction

/** What an async I/O operator calls. */
private[pillarbox] sealed trait AsyncIOFunction {

  /** On the driver, when a job's tasks are made: with the files of the session that the job belongs to. */
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
