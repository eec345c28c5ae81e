package io.pillarbox.operator

import scala.collection.mutable

import io.pillarbox.api.OutputTag
import io.pillarbox.mailbox.{MailboxExecutor, ManualProcessingTimeService, TaskMailbox}

/**
 * Drives an operator in a test, with a clock and a watermark moved by hand and a mailbox on the calling
 * thread.
 *
 * Every call returns when all mail it led to has run, so nothing ever has to be waited for.
 *
 * {{{
 * val harness = OneInputOperatorTestHarness(env => new KeyedProcessOperator(..., env.clock,
 * env.processingTime)) harness.open() harness.processElement(row, timestamp = 10)
 * harness.processWatermark(20) assert(harness.takeRows() == Seq(...)) }}}
 */
final class OneInputOperatorTestHarness[IN, OUT] private (
    make: OperatorEnvironment => OneInputOperator[IN, OUT],
    startTime: Long
) extends AutoCloseable {
  import OneInputOperatorTestHarness._

  private val mailbox = new TaskMailbox(Thread.currentThread())
  private val executor = new MailboxExecutor(mailbox, TaskMailbox.MinPriority)
  private val processingTime = new ManualProcessingTimeService(executor, startTime)
  private val main = mutable.ArrayBuffer.empty[Element[OUT]]
  private val side = mutable.Map.empty[OutputTag[_], mutable.ArrayBuffer[Record[Any]]]

  val operator: OneInputOperator[IN, OUT] = make(
    OperatorEnvironment(new EventClock, processingTime)
  )

  def open(): Unit = run(operator.open(new Recorder))

  /** Opens the operator with the state and timers of `snapshot`. */
  def open(snapshot: OperatorSnapshot): Unit = run {
    operator.restore(snapshot)
    operator.open(new Recorder)
  }

  def processElement(value: IN, timestamp: Long = Output.NoTimestamp): Unit =
    run(operator.processElement(value, timestamp))

  def processWatermark(timestamp: Long): Unit = run(operator.processWatermark(timestamp))

  /** Moves the clock, in milliseconds since 1970; fires the timers that become due. */
  def setProcessingTime(timestamp: Long): Unit = run(processingTime.advanceTo(timestamp))

  def endInput(): Unit = run(operator.endInput())

  def snapshot(): OperatorSnapshot = operator.snapshot()

  /** All that was emitted since the last call, watermarks included. */
  def takeOutput(): Seq[Element[OUT]] = {
    val taken = main.toVector
    main.clear()
    taken
  }

  /** The rows emitted since the last call; watermarks among them are dropped. */
  def takeRows(): Seq[OUT] = takeOutput().collect { case Record(value, _) => value }

  /** The rows of a side output since the last call. */
  def takeSideOutput[X](tag: OutputTag[X]): Seq[Record[X]] =
    side.remove(tag).fold(Seq.empty[Record[X]])(_.toVector.asInstanceOf[Seq[Record[X]]])

  override def close(): Unit = {
    operator.close()
    processingTime.close()
    mailbox.close(): Unit
  }

  private def run(action: => Unit): Unit = {
    action
    while (executor.tryYield()) {}
  }

  private final class Recorder extends Output[OUT] {
    override def collect(value: OUT, timestamp: Long): Unit = main += Record(value, timestamp)

    override def collect[X](tag: OutputTag[X], value: X, timestamp: Long): Unit =
      side.getOrElseUpdate(tag, mutable.ArrayBuffer.empty) += Record(value, timestamp)

    override def emitWatermark(timestamp: Long): Unit = main += Watermark(timestamp)
  }
}

object OneInputOperatorTestHarness {

  /** Something that an operator emitted. */
  sealed trait Element[+T]

  final case class Record[+T](value: T, timestamp: Long) extends Element[T]

  final case class Watermark(timestamp: Long) extends Element[Nothing]

  /**
   * @param startTime
   *   of the clock, in milliseconds since 1970
   * @param make
   *   makes the operator with the clocks and the mailbox of the harness
   */
  def apply[IN, OUT](
      make: OperatorEnvironment => OneInputOperator[IN, OUT],
      startTime: Long = 0L
  ): OneInputOperatorTestHarness[IN, OUT] = new OneInputOperatorTestHarness(make, startTime)
}

/** What an operator is made with besides its function. */
final case class OperatorEnvironment(clock: EventClock, processingTime: ManualProcessingTimeService)
