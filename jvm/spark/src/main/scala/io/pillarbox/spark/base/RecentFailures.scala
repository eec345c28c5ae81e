package io.pillarbox.spark.base

import scala.jdk.CollectionConverters._

/**
 * The reports of the last errors of this process, by the texts that people read. The driver's Python asks for
 * them by the text of the error that it caught. Any thread.
 */
private[pillarbox] object RecentFailures {
  private final val Most = 64

  private val reports = new java.util.LinkedHashMap[String, FailureReport] {
    override def removeEldestEntry(oldest: java.util.Map.Entry[String, FailureReport]): Boolean = size > Most
  }

  /** True once a client of Spark Connect was here: it gets texts alone, so they carry their reports. */
  @volatile var areInTexts = false

  /** Returns the text of an error with this report. */
  def textOf(report: FailureReport): String =
    if (areInTexts) report.layout
    else {
      val text = report.told
      reports.synchronized {
        reports.remove(text): Unit
        reports.put(text, report): Unit
      }
      text
    }

  /** Returns the report of the error whose text this one begins with. */
  def find(text: String): Option[FailureReport] = reports.synchronized {
    val found = reports.asScala.iterator.collect {
      case (told, report) if text.startsWith(told) => told -> report
    }
    found.maxByOption(_._1.length).map(_._2)
  }
}
