package io.pillarbox.operator

import io.pillarbox.api.KeyedProcessFunction
import io.pillarbox.mailbox.ProcessingTimeService
import io.pillarbox.state.KeyedStateBackend
import io.pillarbox.timer.BatchExecutionInternalTimerService

/**
 * Runs a keyed process function on a batch that is sorted by key, in the order of [[BatchOrder]]: one key is
 * in memory at a time. Mailbox thread only. Watermarks in between mean nothing.
 *
 * @param keySelector
 *   the key of a row, never null; rows of one key must follow each other
 * @param backend
 *   made with `clock`; the operator closes it
 */
final class BatchKeyedProcessOperator[K, IN, OUT](
    function: KeyedProcessFunction[K, IN, OUT],
    keySelector: IN => K,
    backend: KeyedStateBackend[K],
    clock: EventClock,
    processingTime: ProcessingTimeService
) extends OneInputOperator[IN, OUT] {
  private val timers =
    new BatchExecutionInternalTimerService[K](backend)
  private val rows = new OneRow[IN]
  private var schedule: BatchOrder[K, IN] = _

  override def open(output: Output[OUT]): Unit = {
    clock.processingTime = processingTime.currentProcessingTime
    val states = new FunctionStates[K]("keyed", backend, identity)
    function.open(states)
    val view = new PlainView[K, IN](keySelector)
    val target = new FunctionTarget(function, states, backend, timers, clock, output, view)
    schedule = new BatchOrder(rows, keySelector, backend.keySerializer, timers, clock, target)
  }

  override def processElement(value: IN, timestamp: Long): Unit = {
    clock.processingTime = processingTime.currentProcessingTime
    rows.put(value, timestamp)
    schedule.step()
    while (schedule.hasRow) schedule.step()
  }

  override def processWatermark(timestamp: Long): Unit = ()

  override def endInput(): Unit = {
    clock.processingTime = processingTime.currentProcessingTime
    while (schedule.step()) {}
  }

  override def snapshot(): OperatorSnapshot = throw unsupported("take a snapshot")

  override def restore(snapshot: OperatorSnapshot): Unit = throw unsupported("restore one")

  override def close(): Unit =
    try function.close()
    finally backend.close()

  private def unsupported(what: String) = new UnsupportedOperationException(
    s"A batch can't $what: it starts over when it fails; use KeyedProcessOperator in a stream"
  )
}
