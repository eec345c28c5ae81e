package io.pillarbox.spark.plan

import io.pillarbox.spark.async.{AsyncIOSpec, JournalFolder}
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pillarbox.{MicroBatch, SparkAdapter}

/** Finds the folder of an operator's journal. On the driver, when the operator is about to run. */
private object CallJournals {
  private final val InCheckpoint = "pillarbox-journal"

  /** @param batch the micro-batch that the operator runs in, if it is in a streaming query */
  def folder(node: AsyncIO, session: SparkSession, batch: Option[MicroBatch]): Option[JournalFolder] =
    node.spec.journal.map(_.path).map { path =>
      val folder = if (path.isEmpty) inCheckpoint(batch) else path
      val qualified = JournalFolder.qualified(folder, SparkAdapter.hadoopConf(session))
      JournalFolder(qualified, SparkAdapter.broadcastHadoopConf(session))
    }

  /** @throws IllegalArgumentException (JOURNAL_UNREACHABLE) if there is no file system for the folder */
  def check(spec: AsyncIOSpec, session: SparkSession): Unit =
    spec.journal
      .map(_.path)
      .filter(_.nonEmpty)
      .foreach(JournalFolder.qualified(_, SparkAdapter.hadoopConf(session)))

  private def inCheckpoint(batch: Option[MicroBatch]): String = batch match {
    case Some(known) => new Path(known.checkpoint, InCheckpoint).toString
    case None => throw new IllegalStateException("journal=True is for streaming queries, and this is none")
  }
}
