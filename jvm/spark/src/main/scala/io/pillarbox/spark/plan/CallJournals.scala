package io.pillarbox.spark.plan

import io.pillarbox.spark.async.JournalFolder
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pillarbox.{MicroBatch, SparkAdapter}

/** Finds the folder of an operator's journal. On the driver, when the operator is about to run. */
private object CallJournals {
  private final val InCheckpoint = "pillarbox-journal"

  /** @param batch the micro-batch that the operator runs in, if it is in a streaming query */
  def folder(node: AsyncIO, session: SparkSession, batch: Option[MicroBatch]): Option[JournalFolder] =
    node.spec.journal.map { path =>
      val folder = if (path.isEmpty) inCheckpoint(batch) else new Path(path)
      val qualified = folder.getFileSystem(SparkAdapter.hadoopConf(session)).makeQualified(folder)
      JournalFolder(qualified.toString, SparkAdapter.broadcastHadoopConf(session))
    }

  private def inCheckpoint(batch: Option[MicroBatch]): Path = batch match {
    case Some(known) => new Path(known.checkpoint, InCheckpoint)
    case None => throw new IllegalStateException("journal=True is for streaming queries, and this is none")
  }
}
