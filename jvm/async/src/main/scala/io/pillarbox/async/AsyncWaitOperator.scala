package io.pillarbox.async

import java.util

import io.pillarbox.api.AsyncFunction
import io.pillarbox.async.queue._
import io.pillarbox.mailbox.{MailboxExecutor, ProcessingTimeService}

/**
 * Makes a call for every record, many at a time, and emits the answers in order or as they come.
 *
 * Guarantees: rows leave on the mailbox thread only, those of one record together; at most the capacity and
 * the look-ahead is taken in, beside records that wait for others of their key, with back-pressure beyond;
 * every record leaves once, is answered by the failure policy, or fails the task; until then it is part of
 * the snapshot. A call is made at least once.
 *
 * All methods are for the mailbox thread, `completionBatch` and `metrics` for any. An exception of the
 * failure policy leaves through the caller that runs the mail in which it came up.
 *
 * @param executor with this operator's priority; its yields run while `processElement` waits for room
 * @param firstElementId the id of the next new record, above that of any record ever snapshotted
 */
private[pillarbox] final class AsyncWaitOperator[IN, OUT](
    function: AsyncFunction[IN, OUT],
    options: AsyncOptions[IN, OUT],
    executor: MailboxExecutor,
    time: ProcessingTimeService,
    output: AsyncOutput[IN, OUT],
    val metrics: AsyncMetrics,
    firstElementId: Long
) extends AutoCloseable {
  import AsyncWaitOperator._

  private val room = options.room
  private val most = math.min(room.toLong + options.roomForKeys, Int.MaxValue.toLong).toInt
  private val queue: StreamElementQueue[IN, OUT] =
    if (!options.ordered) new UnorderedStreamElementQueue(most)
    else
      options.keyed.fold[StreamElementQueue[IN, OUT]](new OrderedStreamElementQueue(most)) { keyed =>
        new KeyOrderedStreamElementQueue(most, keyed.keyOf)
      }
  private val calls = new CallPipeline[IN, OUT](
    function,
    options,
    executor,
    time,
    metrics,
    queue.complete(_),
    () => onCompleted()
  )

  private val restored = new util.ArrayDeque[StreamElement[IN, OUT]]
  private var elementIds = firstElementId
  private var onCapacity: Runnable = NoHook
  private var capacityWanted = false
  private var inputEnded = false
  private var closed = false

  def this(
      function: AsyncFunction[IN, OUT],
      options: AsyncOptions[IN, OUT],
      executor: MailboxExecutor,
      time: ProcessingTimeService,
      output: AsyncOutput[IN, OUT]
  ) = this(function, options, executor, time, output, new AsyncMetrics(options.units), 0L)

  /** Opens the function. Before everything else. */
  @throws[Exception]
  def open(): Unit = function.open(() => options.operatorName)

  /** Sets the hook that runs, on the mailbox thread, when there is room after `try…` has found none. */
  def onCapacityAvailable(hook: Runnable): Unit = onCapacity = hook

  /** Tells if a record would be taken in now. Restored elements come first. */
  def hasCapacity: Boolean = restored.isEmpty && hasRoom

  private def hasRoom: Boolean = queue.size - calls.waitingForKey < room && calls.hasRoom

  /** Elements taken in and not yet emitted, without those restored that wait for room. */
  def size: Int = queue.size

  /**
   * Takes the record in; while there is no room, runs mail of at least this operator's priority.
   *
   * @param timestampMs the record's time, or [[AsyncOutput.NoTimestamp]]
   * @throws InterruptedException if interrupted while waiting; the record was not taken in
   */
  @throws[InterruptedException]
  def processElement(input: IN, timestampMs: Long): Unit = {
    awaitCapacity()
    admit(newElementId(), input, timestampMs)
  }

  /** Takes the record in if there is room; otherwise the hook runs when there is. */
  def tryProcessElement(input: IN, timestampMs: Long): Boolean = {
    val fits = hasCapacityOrWant()
    if (fits) admit(newElementId(), input, timestampMs)
    fits
  }

  private def hasCapacityOrWant(): Boolean = {
    checkAcceptsInput()
    val fits = hasCapacity
    if (!fits) {
      capacityWanted = true
      metrics.capacityWait.markStart()
    }
    fits
  }

  private def awaitCapacity(): Unit = {
    checkAcceptsInput()
    if (!hasCapacity) {
      metrics.capacityWait.markStart()
      try while (!hasCapacity) executor.yieldMail()
      finally metrics.capacityWait.markEnd()
    }
  }

  private def checkAcceptsInput(): Unit = if (inputEnded || closed)
    throw new IllegalStateException(
      s"The async operator takes no more input: ${if (closed) "it is closed" else "its input has ended"}."
    )

  private def newElementId(): Long = {
    val id = elementIds
    elementIds += 1
    id
  }

  private def admit(elementId: Long, input: IN, timestampMs: Long): Unit = {
    val element = new InFlightElement[IN, OUT](calls, elementId, input, timestampMs)
    enqueue(element)
    calls.admit(element)
  }

  private def enqueue(entry: StreamElementQueueEntry[IN, OUT]): Unit = if (!queue.tryPut(entry))
    throw new IllegalStateException(s"The queue of the async operator is full at ${queue.size} elements.")

  /** Handles the mail that answers send. Other mail gets its turn after a bounded number of elements. */
  private def onCompleted(): Unit = if (!closed)
    try settleAndEmit()
    finally calls.inbox.handled(queue.hasCompletedElements || calls.hasCompleted)

  /** Takes answers that come while it emits along, instead of a mail for each. */
  private def settleAndEmit(): Unit = {
    var budget = EmitPerMail
    do {
      calls.settleCompleted()
      budget -= math.max(1, emitSome(budget))
    } while (budget > 0 && calls.hasCompleted)
  }

  private def emitSome(most: Int): Int = {
    var emitted = 0
    while (emitted < most && queue.hasCompletedElements) {
      queue.emitCompletedElement(output)
      emitted += 1
    }
    onRoom()
    emitted
  }

  private def onRoom(): Unit = {
    if (!restored.isEmpty) feedRestored()
    if (capacityWanted && hasCapacity) {
      capacityWanted = false
      metrics.capacityWait.markEnd()
      onCapacity.run()
    }
  }

  /** Tells that no input comes for a while: a group that waits for company is called as it is. */
  def inputPauses(): Unit = calls.inputPauses()

  /** Ends the input. Calls in flight go on, with their deadlines and retries; see `isDrained`. */
  def endInputReached(): Unit = {
    inputEnded = true
    if (restored.isEmpty) calls.noMoreInput()
  }

  /** True if everything that was taken in has been emitted. */
  def isDrained: Boolean = queue.isEmpty && restored.isEmpty

  /** Returns everything not yet emitted, in the order in which it came. */
  def snapshotState(): util.List[StreamElement[IN, OUT]] = {
    val elements = new util.ArrayList[StreamElement[IN, OUT]](queue.size + restored.size)
    queue.foreach(entry => elements.add(snapshotOf(entry)): Unit)
    elements.addAll(restored)
    elements
  }

  private def snapshotOf(entry: StreamElementQueueEntry[IN, OUT]): StreamElement[IN, OUT] = {
    val record = entry.asInstanceOf[InFlightElement[IN, OUT]]
    if (record.isDone)
      StreamElement.Answered(record.elementId, record.input, record.timestampMs, record.results)
    else StreamElement.Record(record.elementId, record.input, record.timestampMs)
  }

  /** The timestamp of the oldest element that is not yet emitted; `Long.MaxValue` if there is none. */
  def oldestTimestampMs: Long =
    if (!queue.isEmpty) queue.oldest.timestampMs
    else Long.MaxValue

  /** The id that the next new record gets, to be kept beside the snapshot. */
  def nextElementId: Long = elementIds

  /**
   * Takes in a snapshot, in its order and before any new input, and calls again the elements without rows. It
   * may be more than the capacity: the rest waits for room, without blocking. Attempts and deadlines start
   * anew, ids stay.
   */
  def restore(elements: util.List[StreamElement[IN, OUT]]): Unit = {
    restored.addAll(elements)
    elements.forEach {
      case StreamElement.Record(id, _, _) => elementIds = math.max(elementIds, id + 1)
      case StreamElement.Answered(id, _, _, _) => elementIds = math.max(elementIds, id + 1)
    }
    feedRestored()
  }

  private def feedRestored(): Unit = {
    while (!restored.isEmpty && hasRoom) restored.pollFirst() match {
      case StreamElement.Record(id, input, timestampMs) => admit(id, input, timestampMs)
      case StreamElement.Answered(id, input, timestampMs, results) =>
        val element = new InFlightElement(calls, id, input, timestampMs)
        element.setResults(results)
        enqueue(element)
    }
    if (inputEnded && restored.isEmpty) calls.noMoreInput()
    // By mail: emitting here would come back here for every answered element.
    if (queue.hasCompletedElements) calls.inbox.runSoon()
  }

  /** Returns a batch that completes many futures of this operator at once. Any thread, but one a batch. */
  def completionBatch(): CompletionBatch[OUT] = new CompletionBatch[OUT](calls.inbox)

  /**
   * Looks at the attempts under way, for `metrics`, and returns those that have come to last `ms` without an
   * answer since the last time, if there are any.
   */
  def longCalls(ms: Long): Option[LongCalls[IN]] = {
    val ages = new CallAges[IN, OUT](time.nanoTime, ms)
    queue.foreach(ages.look)
    metrics.oldestCallMs = ages.oldestMs
    metrics.waiting = ages.waiting
    ages.long
  }

  /**
   * Cancels all calls in flight, gives their permits back, and closes the function. Nothing more is emitted;
   * the second call has no effect.
   */
  override def close(): Unit = if (!closed) {
    closed = true
    calls.close()
    queue.foreach {
      case record: InFlightElement[IN, OUT] => calls.abandon(record)
      case _ => ()
    }
    metrics.capacityWait.markEnd()
    metrics.oldestCallMs = 0L
    metrics.waiting = 0
    function.close()
  }
}

private[pillarbox] object AsyncWaitOperator {

  /** The most elements that one mail emits. */
  private[pillarbox] final val EmitPerMail = 64

  private val NoHook: Runnable = () => ()
}
