package io.pillarbox.spark.async

import java.io.IOException
import java.util.{Collection => JCollection}

import scala.util.control.NonFatal

import io.pillarbox.metered.journal._
import io.pillarbox.spark.base.FailureReport
import io.pillarbox.spark.task.ReportedException
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.pillarbox.LocalFolders
import org.apache.spark.util.SerializableConfiguration

/**
 * The folder in which answers are kept.
 *
 * @param path with its scheme, the same for all executors
 */
private[pillarbox] final case class JournalFolder(
    path: String,
    configuration: Broadcast[SerializableConfiguration]
)

private[pillarbox] object JournalFolder {

  /**
   * Returns the path with its scheme, which is the same for the driver and its executors. Reads nothing.
   *
   * @throws IllegalArgumentException (JOURNAL_UNREACHABLE) if there is no file system for it
   */
  def qualified(path: String, conf: Configuration): String =
    try {
      val folder = new Path(path)
      folder.getFileSystem(conf).makeQualified(folder).toString
    } catch {
      case NonFatal(problem) =>
        val reason = Option(problem.getMessage).getOrElse(problem.getClass.getSimpleName).stripSuffix(".")
        val report = FailureReport.of("JOURNAL_UNREACHABLE", "", "path" -> path, "reason" -> reason)
        throw new IllegalArgumentException(report.errorText, problem)
    }
}

/**
 * What an operator has kept in a folder, for one task. Fails the task, naming the folder, where it can't be read
 * or written. Mailbox thread only.
 */
private[async] final class HeldFolder(
    task: AsyncIOTaskSpec,
    folder: JournalFolder,
    operator: JournalOperator
) {
  import HeldFolder._

  val held: HeldJournal = reading {
    journals.hold(
      folder.path,
      task.spec.journal.fold(0L)(_.ttlMs),
      operator,
      HadoopJournalFiles.in(new Path(folder.path), folder.configuration.value.value)
    )
  }

  def reading[T](body: => T): T = failing("read")(body)

  def writing[T](body: => T): T = failing("written")(body)

  private def failing[T](what: String)(body: => T): T =
    try body
    catch {
      case problem: TooManySegmentsException =>
        val parameters = Seq("path" -> folder.path, "most" -> problem.most)
        throw new ReportedException(FailureReport.of(TooMany, task.spec.operator, parameters: _*), problem)
      case problem: IOException =>
        val reason = Option(problem.getMessage).getOrElse(problem.getClass.getSimpleName)
        val parameters = Seq("path" -> folder.path, "what" -> what, "reason" -> reason)
        throw new ReportedException(FailureReport.of(Failed, task.spec.operator, parameters: _*), problem)
    }
}

private[async] object HeldFolder {

  /** The journals of this process. */
  val journals =
    new Journals(
      () => System.nanoTime(),
      () => System.currentTimeMillis(),
      scratch = () => LocalFolders.root
    )
  private final val Failed = "JOURNAL_FAILED"
  private final val TooMany = "JOURNAL_TOO_MANY_FILES"
}

/**
 * A task's answers, in the journal that it shares with the others of its process. Mailbox thread only.
 *
 * Fails the task where the journal can't be read or written: before a call, or else before the rows leave
 * whose answers could not be kept.
 */
private[async] final class TaskJournal(task: AsyncIOTaskSpec, folder: JournalFolder)
    extends CallJournal[InternalRow]
    with AutoCloseable {
  private val codec = new AnswerCodec(task.spec.returns, task.columns.answers)

  /** The worker does not tell whether it refused the answer of the last attempt, which is used as it is. */
  private val unsafeAttempt =
    task.spec.retry.filter(_.refusesResults).fold(Int.MaxValue)(_.maxAttempts)

  private val folderOf = new HeldFolder(task, folder, JournalOperators.of(task))
  import folderOf.{held, reading, writing}

  override def find(key: CallKey): JCollection[InternalRow] = {
    val bytes = reading(held.find(key))
    if (bytes == null) null else codec.decode(bytes)
  }

  override def willCall(): Unit = writing(held.open())

  override def keep(key: CallKey, cost: CallCost, attempt: Int, rows: JCollection[InternalRow]): Unit =
    if (attempt < unsafeAttempt) {
      codec.encode(rows)
      held.add(key, cost, codec.bytes, codec.length)
    }

  override def flush(): Unit = writing(held.flush())

  override def close(): Unit = writing(held.close())
}
