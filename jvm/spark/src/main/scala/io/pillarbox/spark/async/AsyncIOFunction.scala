package io.pillarbox.spark.async

import org.apache.spark.sql.pillarbox.UserFunction

/** What an async I/O operator calls. */
private[pillarbox] sealed trait AsyncIOFunction

private[pillarbox] object AsyncIOFunction {

  /** A Python function, pickled, with the environment it needs. */
  final case class Python(function: UserFunction, artifactId: Option[String]) extends AsyncIOFunction

  /** An `AsyncFunction[Row, Row]` on the executors' class path, made with its options there. */
  final case class Jvm(className: String, options: Map[String, String]) extends AsyncIOFunction
}
