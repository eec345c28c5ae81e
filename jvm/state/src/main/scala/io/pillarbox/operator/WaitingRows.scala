package io.pillarbox.operator

import java.nio.charset.StandardCharsets.UTF_8
import java.util.{ArrayList, Comparator}

import io.pillarbox.api.{Bytes, StateDescriptor, TimeDomain, TypeSerializer}
import io.pillarbox.state.{KeyedStateBackend, Namespace, StateNames}
import io.pillarbox.timer.{InternalTimerService, Timer}

/**
 * Keeps rows in keyed state until the watermark reaches them: a list for each key and time, and a timer that
 * stands for it. Mailbox thread only.
 *
 * @param order sorts rows of one key and time; if it goes by what they contain, the result does not depend on
 *   how the input was cut
 */
private[pillarbox] final class WaitingRows[K, R](
    backend: KeyedStateBackend[K],
    timers: InternalTimerService[K],
    serializer: TypeSerializer[R],
    order: Comparator[R]
) {
  private val rows = backend.getOrCreate(StateDescriptor.list(WaitingRows.StateName, serializer))

  /** Keeps a copy of the row. */
  def add(key: K, row: R, time: Long): Unit = {
    backend.setCurrentKey(key)
    timers.register(TimeDomain.EVENT_TIME, WaitingRows.RowTimers, time)
    backend.setCurrentNamespace(WaitingRows.namespaceOf(time))
    rows.add(serializer.copy(row))
  }

  /** Takes the rows of a key and time out, in their order. The key is the current one afterwards. */
  def take(key: K, time: Long): ArrayList[R] = {
    backend.setCurrentKey(key)
    backend.setCurrentNamespace(WaitingRows.namespaceOf(time))
    val taken = new ArrayList[R]
    rows.get().forEach(taken.add(_): Unit)
    if (!taken.isEmpty) rows.clear()
    taken.sort(order)
    backend.setCurrentKey(key)
    taken
  }
}

private[pillarbox] object WaitingRows {

  /** No function can use this name. */
  final val StateName = StateNames.Reserved + "time-sorted rows"

  private val RowTimers = Namespace.of("rows".getBytes(UTF_8))

  /** True if the timer stands for rows, and is none of the function's. */
  private[pillarbox] def standsForRows(timer: Timer[_]): Boolean = timer.namespace == RowTimers

  private def namespaceOf(time: Long): Namespace = {
    val bytes = new Array[Byte](8)
    Bytes.putLong(bytes, 0, time)
    Namespace.of(bytes)
  }
}
