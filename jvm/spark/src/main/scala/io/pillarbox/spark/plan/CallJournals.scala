package io.pillarbox.spark.plan

import io.pillarbox.spark.async.JournalFolder
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pillarbox.{MicroBatches, SparkAdapter}

/** Finds the folder of an operator's journal. On the driver, when it is about to run. */
private object CallJournals {
  private final val InCheckpoint = "pillarbox-journal"

  def folder(node: AsyncIO, session: SparkSession): Option[JournalFolder] = node.spec.journal.map { path =>
    val folder = if (path.isEmpty) inCheckpoint(session) else new Path(path)
    val qualified = folder.getFileSystem(SparkAdapter.hadoopConf(session)).makeQualified(folder)
    JournalFolder(qualified.toString, SparkAdapter.broadcastHadoopConf(session))
  }

  private def inCheckpoint(session: SparkSession): Path = {
    val batch = MicroBatches
      .current(session.sparkContext)
      .getOrElse(throw new IllegalStateException("journal=True is for streaming queries, and this is none"))
    new Path(batch.checkpoint, InCheckpoint)
  }
}
