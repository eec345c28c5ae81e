package io.pillarbox.spark.base

import scala.jdk.CollectionConverters._

/**
 * The reports of the last errors of this process, by the texts that people read. The driver's Python, or a
 * client of Spark Connect, asks for them by the text of the error that it caught. Any thread.
 */
private[pillarbox] object RecentFailures {
  private final val Most = 64

  /** Spark Connect may pass on only the first 2,048 characters of an error. */
  private final val Cut = 1000

  private val reports = new java.util.LinkedHashMap[String, FailureReport] {
    override def removeEldestEntry(oldest: java.util.Map.Entry[String, FailureReport]): Boolean = size > Most
  }

  /** Returns the text of an error with this report. */
  def textOf(report: FailureReport): String = {
    val text = report.told
    reports.synchronized {
      reports.remove(text): Unit
      reports.put(text, report): Unit
    }
    text
  }

  /** Returns the report of the error whose text this one begins with, or is cut from. */
  def find(text: String): Option[FailureReport] = reports.synchronized {
    val cut = text.stripSuffix("...")
    val found = reports.asScala.iterator.collect {
      case (told, report) if text.startsWith(told) || (cut.length >= Cut && told.startsWith(cut)) =>
        told -> report
    }
    found.maxByOption(_._1.length).map(_._2)
  }
}
