package io.pillarbox.spark.base

import java.util.Properties

import scala.util.Using

/** What this jar is. */
private[pillarbox] object Build {

  private lazy val properties: Properties =
    Using.resource(getClass.getResourceAsStream("/io/pillarbox/version.properties")) { in =>
      val read = new Properties
      read.load(in)
      read
    }

  def version: String = properties.getProperty("version")

  /** The version, and for a development build behind a + the commit, if it is known. */
  def buildVersion: String = {
    val commit = properties.getProperty("commit")
    if (commit.isEmpty) version else s"$version+g$commit"
  }

  /** The line of Spark that the jar was built for, as in "4.2". */
  def sparkVersion: String = properties.getProperty("spark")
}
