package io.pillarbox.spark.journal

import java.io.{FileNotFoundException, IOException}

import io.pillarbox.metered.journal.StoredAnswers
import io.pillarbox.spark.async.{HadoopJournalFiles, JournalFolder}
import io.pillarbox.spark.base.FailureReport
import io.pillarbox.spark.task.ReportedException
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * The answers of a journal that are meant.
 *
 * @param path the folder
 * @param name the operator that they are for; None for all
 * @param version the one of `pb.Journal`; None for all
 */
private[pillarbox] final case class JournalAddress(
    path: String,
    name: Option[String] = None,
    version: Option[String] = None
) {

  /** The folder with its scheme, which is the same for the driver and its executors. */
  def qualified(conf: Configuration): JournalAddress = copy(path = JournalFolder.qualified(path, conf))

  /** True if the path is a folder. */
  def isThere(conf: Configuration): Boolean = {
    val folder = new Path(path)
    try folder.getFileSystem(conf).getFileStatus(folder).isDirectory
    catch { case _: FileNotFoundException => false }
  }

  def answers(conf: Configuration): StoredAnswers =
    new StoredAnswers(HadoopJournalFiles.in(new Path(path), conf), () => System.currentTimeMillis())

  /** Runs `body`, and tells with the folder's name what it throws if files can't be read, or are gone. */
  def reporting[T](what: String)(body: => T): T =
    try body
    catch {
      case gone: FileNotFoundException =>
        throw failure(gone, "JOURNAL_CHANGED", "path" -> path, "file" -> gone.getMessage)
      case problem: IOException =>
        val reason = Option(problem.getMessage).getOrElse(problem.getClass.getSimpleName)
        throw failure(problem, "JOURNAL_FAILED", "path" -> path, "what" -> what, "reason" -> reason)
    }

  private def failure(cause: IOException, condition: String, parameters: (String, Any)*) =
    new ReportedException(FailureReport.of(condition, "", parameters: _*), cause)
}
