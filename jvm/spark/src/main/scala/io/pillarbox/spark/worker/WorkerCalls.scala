package io.pillarbox.spark.worker

import java.nio.ByteBuffer

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow

/**
 * The executor's part in calls that the worker of an operator makes between the frames of that: it says when
 * attempts begin, and what becomes of them. For the task's thread.
 */
private[pillarbox] trait WorkerCalls extends AutoCloseable {

  /** Takes note of a row of the next frame, in the order in which the worker gets them; it is copied. */
  def add(row: InternalRow): Unit

  /**
   * Lets the calls of the rows that were added begin, once the worker has been sent their frame.
   *
   * @param keyOf returns the number of a row's key, by the row's place
   */
  def begin(keyOf: Int => Int): Unit

  /** Takes a message of one of [[WorkerCalls.Kinds]]. Does not wait. */
  def take(message: Frame): Unit

  /**
   * Waits until the driver has counted all rows that failed so far, in all tasks.
   *
   * @throws java.lang.RuntimeException if more rows have failed than the budget lets
   */
  def settle(): Unit

  /**
   * Ends all calls, after the worker's last message: nothing is sent any more, what they hold is given back,
   * and the driver is told what they have cost in all. Idempotent.
   */
  override def close(): Unit
}

private[pillarbox] object WorkerCalls {

  /** Begins attempts, gives them up, and tells how calls end. */
  final val Attempts: Byte = 'W'

  /** Tells which attempts have answered. */
  final val Answered: Byte = 'D'

  /** Tells what functions in the worker have estimated for rows. */
  final val Amounts: Byte = 'M'

  /** What the worker tells, beside what all its calls tell. */
  val Kinds: Seq[Byte] = Seq(Answered, Amounts, Frame.Failures, Frame.Usage, Frame.Told, Frame.Note)

  /** Makes the part of each task; travels from the driver to the executors. */
  trait Factory extends Serializable {

    /**
     * @param send sends the worker a frame, from any thread, and waits while that does not read
     * @param broken ends the task, from any thread
     */
    def open(
        context: TaskContext,
        send: (Byte, ByteBuffer) => Unit,
        broken: Throwable => Unit
    ): WorkerCalls
  }
}
