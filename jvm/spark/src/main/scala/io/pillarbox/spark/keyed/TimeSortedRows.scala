package io.pillarbox.spark.keyed

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Comparator

import io.pillarbox.state.serialization.{Bytes => ByteOrder}
import io.pillarbox.state.{ListState, ListStateDescriptor, Namespace}
import io.pillarbox.timer.Timer
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Rows that wait in keyed state for the watermark: a list for each key and time, and a timer that tells when it is due.
 *
 * Rows of one key and time come out in an order that depends on their content alone, so the result does not depend on
 * how the input was cut into micro-batches. Mailbox thread only.
 *
 * @param order
 *   of rows of one key and time
 */
final private class TimeSortedRows(state: PartitionState, task: KeyedTask, order: Comparator[UnsafeRow]) {
  private val rows: ListState[UnsafeRow] = state.backend.getOrCreate(
    ListStateDescriptor(TimeSortedRows.StateName, new UnsafeRowSerializer(task.inputSchema))
  )

  /** Keeps a copy of the row. */
  def add(key: UnsafeRow, row: UnsafeRow, timestamp: Long): Unit = {
    state.backend.setCurrentKey(key)
    state.timers.registerEventTimeTimer(TimeSortedRows.RowTimers, timestamp)
    state.backend.setCurrentNamespace(TimeSortedRows.namespaceOf(timestamp))
    rows.add(row.copy())
  }

  /** Takes the rows of a key and time out, in their order. The key is the current one afterwards. */
  def take(key: UnsafeRow, timestamp: Long): Array[UnsafeRow] = {
    state.backend.setCurrentKey(key)
    state.backend.setCurrentNamespace(TimeSortedRows.namespaceOf(timestamp))
    val taken = rows.get().toArray
    if (taken.nonEmpty) rows.clear()
    java.util.Arrays.sort(taken, order)
    state.backend.setCurrentKey(key)
    taken
  }
}

object TimeSortedRows {

  /** No function can use this name: it is not an identifier. */
  final val StateName = "pillarbox time-sorted rows"

  private val RowTimers = Namespace.of("rows".getBytes(UTF_8))

  /** Whether the timer stands for rows, not for a timer of the function. */
  def isRowTimer(timer: Timer[UnsafeRow]): Boolean = timer.namespace == RowTimers

  /** The time of the rows that are kept in a namespace of these bytes. */
  private[spark] def timeOf(namespace: Array[Byte]): Long = ByteOrder.getLong(namespace, 0)

  private def namespaceOf(timestamp: Long): Namespace = {
    val bytes = new Array[Byte](8)
    ByteOrder.putLong(bytes, 0, timestamp)
    Namespace.of(bytes)
  }

  /** A total order of rows by their bytes, for rows that nothing else tells apart. */
  val byBytes: Comparator[UnsafeRow] =
    (left, right) => java.util.Arrays.compareUnsigned(left.getBytes, right.getBytes)
}
