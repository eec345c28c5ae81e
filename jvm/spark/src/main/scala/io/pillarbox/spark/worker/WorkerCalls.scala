package io.pillarbox.spark.worker

import java.nio.ByteBuffer

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow

/**
 * The executor's part in calls that a worker makes by itself, between the frames of its operator: limits and
 * budgets let them begin, and their bill is kept. For the task's thread.
 */
private[pillarbox] trait WorkerCalls extends AutoCloseable {

  /** Takes note of a row of the next frame, in the order in which the worker gets them. */
  def add(row: InternalRow): Unit

  /** Forgets the rows of a frame that has been answered. */
  def answered(): Unit

  /** Takes a message of one of [[WorkerCalls.Kinds]]. Does not wait. */
  def take(message: Frame): Unit

  /**
   * Waits until the driver has counted all rows that failed so far, in all tasks.
   *
   * @throws java.lang.RuntimeException if more rows have failed than the budget lets
   */
  def settle(): Unit

  /** Ends all calls: nothing is sent any more, and what they hold is given back. Idempotent. */
  override def close(): Unit

  /** Tells the driver what the calls have cost in all. After `close`, and the worker's last message. */
  def end(): Unit
}

private[pillarbox] object WorkerCalls {

  /** Asks for attempts, and tells how they went. */
  final val Attempts: Byte = 'W'

  /** Tells what calls have cost since the last one. */
  final val Tally: Byte = 'B'

  /** Answers to what was asked for. */
  final val Answers: Byte = 'G'

  val Kinds: Seq[Byte] = Seq(Attempts, Tally)

  /** Makes the part of each task; travels from the driver to the executors. */
  trait Factory extends Serializable {

    /** True if calls must ask before they begin. */
    def mayRefuse: Boolean

    /**
     * @param send sends the worker a frame, and waits while that does not read
     * @param broken ends the task, from any thread
     */
    def open(
        context: TaskContext,
        send: (Byte, ByteBuffer) => Unit,
        broken: Throwable => Unit
    ): WorkerCalls
  }
}
