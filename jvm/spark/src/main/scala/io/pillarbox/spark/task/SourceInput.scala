package io.pillarbox.spark.task

import io.pillarbox.mailbox._
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.pillarbox.{SourceContext, TaskKills, TaskThreads}
import org.slf4j.LoggerFactory

/**
 * Rows that a thread of their own reads, so that the operator goes on while the input blocks. The thread
 * starts with the first question and ends before anything that it reads from is freed.
 *
 * An exception of the input is thrown as it is, after the rows before it. Rows stay valid.
 *
 * @param task the context of the operator
 * @param context the one of what is read
 */
private[pillarbox] final class SourceInput(
    rows: Iterator[InternalRow],
    operatorMailbox: OperatorMailbox,
    priority: Int,
    task: TaskContext,
    context: SourceContext
) extends OperatorInput
    with MailboxResource {
  private val waiting = new MailboxProcessor(_.suspendDefaultAction(): Unit, operatorMailbox.mailbox)
  private val name = s"pillarbox input of task ${task.taskAttemptId()}"
  private val source = new SourceThread[InternalRow](
    rows.map(_.copy()),
    SourceInput.Capacity,
    waiting.mailboxExecutor(priority),
    () => progress.run(),
    TaskThreads.reading(name, context)(_)
  )
  private var progress: Runnable = () => ()
  private var started = false
  private var hasAnswered = false
  private var row: InternalRow = _

  override def onProgress(hook: Runnable): Unit = progress = hook

  override def awaitRow(): Boolean = {
    var polled = poll()
    while (polled == InputStatus.NothingAvailable) {
      TaskKills.check(task)
      operatorMailbox.step(waiting)
      polled = poll()
    }
    polled == InputStatus.MoreAvailable
  }

  private def start(): Unit = {
    started = true
    context.readingStarts()
    operatorMailbox.closeAtEnd(this)
    // A failed task calls its failure listeners first.
    task.addTaskFailureListener((_, _) => close())
    source.start()
  }

  override def poll(): InputStatus = {
    if (!started) start()
    if (row eq null) row = source.poll()
    val found =
      if (row ne null) InputStatus.MoreAvailable
      else if (source.status == InputStatus.EndOfData) InputStatus.EndOfData
      else InputStatus.NothingAvailable
    if (!hasAnswered && found != InputStatus.NothingAvailable) firstAnswer()
    found
  }

  /** Added after the listeners of the input, and so called before them. */
  private def firstAnswer(): Unit = {
    hasAnswered = true
    task.addTaskCompletionListener[Unit](_ => close()): Unit
  }

  override def next(): InternalRow = {
    val taken = row
    row = null
    taken
  }

  /**
   * Ends the reading thread. One that no interrupt ends is left to the end of the task, which closes what it
   * reads from. Any other thread, more than once.
   */
  override def close(): Unit = {
    source.stop()
    if (!Uninterruptibly.within(SourceInput.EndTimeoutMs)(source.awaitEnd))
      SourceInput.log.warn("The {} still reads {} ms after it was stopped", name, SourceInput.EndTimeoutMs)
    context.readingEnds()
  }

  override def abort(): Unit = source.stop()
}

private object SourceInput {
  private val log = LoggerFactory.getLogger(classOf[SourceInput])
  private final val EndTimeoutMs = 4000L

  /** What is read ahead of the operator. Spark's rows between operators are unsafe ones. */
  private val Capacity = InputExchange.Capacity[InternalRow](rows = 256, bytes = 16L << 20, bytesOf = sizeOf)

  private def sizeOf(row: InternalRow): Long = row match {
    case bytes: UnsafeRow => bytes.getSizeInBytes.toLong
    case _ => 0L
  }
}
