package io.pillarbox.operator

import io.pillarbox.state.KeyedStateBackend
import io.pillarbox.timer.BatchExecutionInternalTimerService

/**
 * Runs a keyed process function on a batch that is sorted by key: one key is in memory at a time. Mailbox thread only.
 *
 * When the next key comes, and at the end of input, all timers of the last one fire, event-time timers first, and then
 * its state is dropped. Watermarks in between mean nothing: in a batch all rows of a key come before its timers.
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
    clock: OperatorClock
) extends OneInputOperator[IN, OUT] {

  private val runner = new KeyedFunctionRunner(function, backend, clock)
  private val timers =
    new BatchExecutionInternalTimerService[K](
      backend.keySerializer,
      runner,
      runner,
      () => clock.processingTime
    )
  private var hasKey = false
  private var key: K = _

  override def open(output: Output[OUT]): Unit = runner.open(output, timers)

  override def processElement(value: IN, timestamp: Long): Unit = {
    val next = keySelector(value)
    if (!hasKey || !backend.keySerializer.equal(key, next)) {
      finishKey()
      // The caller may use the row, and a key in it, again.
      key = backend.keySerializer.copy(next)
      hasKey = true
    }
    runner.processElement(key, value, timestamp)
  }

  override def processWatermark(timestamp: Long): Unit = ()

  override def endInput(): Unit = {
    finishKey()
    hasKey = false
  }

  override def snapshot(): OperatorSnapshot = throw unsupported("take a snapshot")

  override def restore(snapshot: OperatorSnapshot): Unit = throw unsupported("restore one")

  override def close(): Unit =
    try runner.close()
    finally backend.close()

  private def finishKey(): Unit = if (hasKey) {
    clock.currentWatermark = Long.MaxValue
    backend.setCurrentKey(key)
    timers.finishKey()
    runner.clearState()
    clock.currentWatermark = Long.MinValue
  }

  private def unsupported(what: String) = new UnsupportedOperationException(
    s"A batch can't $what: it starts over when it fails; use KeyedProcessOperator in a stream"
  )
}
