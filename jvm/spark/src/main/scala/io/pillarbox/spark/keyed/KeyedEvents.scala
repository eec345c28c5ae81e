package io.pillarbox.spark.keyed

import java.util.ArrayDeque

import io.pillarbox.timer.{Timer, TimerKind}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** A part of what an operator is fed with, in order. Mailbox thread only. */
private trait KeyedEvents {

  /** Offers the next event to the operator; what is refused is offered again at the next call. */
  def offerNext(): KeyedEvents.Offer

  /** Whether events have come up since `offerNext` said there were no more. */
  def hasMore: Boolean = false
}

private object KeyedEvents {
  sealed trait Offer
  case object Taken extends Offer
  case object Refused extends Offer
  case object Exhausted extends Offer
}

/** The rows of a micro-batch as they come. */
final private class ArrivingRows(
    input: Iterator[InternalRow],
    context: DriverContext,
    operator: KeyedOperator
) extends KeyedEvents {
  private var pending: UnsafeRow = _

  override def offerNext(): KeyedEvents.Offer =
    if (pending == null && !input.hasNext) KeyedEvents.Exhausted
    else {
      if (pending == null) pending = context.unsafe(input.next())
      if (operator.tryProcessElement(pending, context.timestampOf(pending))) {
        pending = null
        KeyedEvents.Taken
      } else KeyedEvents.Refused
    }
}

/** The rows of a micro-batch, put to the rows that wait for the watermark. */
final private class BufferedRows(input: Iterator[InternalRow], context: DriverContext, rows: TimeSortedRows)
    extends KeyedEvents {

  override def offerNext(): KeyedEvents.Offer =
    if (!input.hasNext) KeyedEvents.Exhausted
    else {
      val row = context.unsafe(input.next())
      rows.add(context.keyOf(row), row, context.timeToSortBy(row))
      KeyedEvents.Taken
    }
}

/**
 * The timers that are due up to a time; with `rows`, also the rows that wait, each before the timers of its key that
 * have the same or a later time.
 */
final private class DueTimers(
    kind: TimerKind,
    time: Long,
    state: PartitionState,
    rows: Option[TimeSortedRows],
    context: DriverContext,
    operator: KeyedOperator
) extends KeyedEvents {
  private val pendingRows = new ArrayDeque[UnsafeRow]
  private var pendingTimer: Timer[UnsafeRow] = _
  private var at = 0L

  override def hasMore: Boolean = state.isDue(kind, time)

  override def offerNext(): KeyedEvents.Offer =
    if (!pendingRows.isEmpty) offerRow()
    else if (pendingTimer != null) offerTimer()
    else if (hasMore) {
      poll()
      offerNext()
    } else KeyedEvents.Exhausted

  private def poll(): Unit = {
    val timer = state.timers.pollDue(kind, time)
    at = timer.timestamp
    if (!TimeSortedRows.isRowTimer(timer)) pendingTimer = timer
    rows.foreach(_.take(timer.key, at).foreach(pendingRows.add))
    // A row timer whose rows went with a timer of the function leaves nothing to offer.
    if (pendingRows.isEmpty && pendingTimer == null && hasMore) poll()
  }

  private def offerRow(): KeyedEvents.Offer = {
    context.atEvent(at - 1)
    if (operator.tryProcessElement(pendingRows.peek(), at)) {
      pendingRows.poll()
      KeyedEvents.Taken
    } else KeyedEvents.Refused
  }

  private def offerTimer(): KeyedEvents.Offer = {
    context.atEvent(if (rows.isDefined) at else time)
    if (operator.tryOnTimer(pendingTimer)) {
      pendingTimer = null
      context.countTimer(kind)
      KeyedEvents.Taken
    } else KeyedEvents.Refused
  }
}

/**
 * The rows of a batch, key after key, each key followed by its end. With time-sorted input, rows of one key and time
 * are put into the order that they have in a stream.
 */
final private class SortedRows(
    input: Iterator[InternalRow],
    context: DriverContext,
    operator: KeyedOperator,
    tieOrder: Option[java.util.Comparator[UnsafeRow]]
) extends KeyedEvents {
  private val ready = new ArrayDeque[UnsafeRow]
  private var ahead: UnsafeRow = _
  private var key: UnsafeRow = _
  private var keyEnds = false

  override def offerNext(): KeyedEvents.Offer = {
    if (ready.isEmpty && !keyEnds) fetch()
    if (!ready.isEmpty) offerRow()
    else if (keyEnds) offerEnd()
    else KeyedEvents.Exhausted
  }

  /** Fetches the next row, or the next rows of one time; notices that a key has ended. */
  private def fetch(): Unit = {
    if (ahead == null && input.hasNext) ahead = context.unsafe(input.next())
    if (ahead == null) keyEnds = key != null
    else if (key == null || key == context.keyOf(ahead)) {
      if (key == null) key = context.keyOf(ahead).copy()
      tieOrder match {
        case None =>
          ready.add(ahead)
          ahead = null
        case Some(order) => fetchTies(order)
      }
    } else keyEnds = true
  }

  private def fetchTies(order: java.util.Comparator[UnsafeRow]): Unit = {
    val time = context.timeToSortBy(ahead)
    val ties = new java.util.ArrayList[UnsafeRow]
    while (ahead != null && key == context.keyOf(ahead) && context.timeToSortBy(ahead) == time) {
      ties.add(ahead.copy())
      ahead = if (input.hasNext) context.unsafe(input.next()) else null
    }
    // What was read last must outlive the next row of the input.
    if (ahead != null) ahead = ahead.copy()
    ties.sort(order)
    ready.addAll(ties)
  }

  private def offerRow(): KeyedEvents.Offer =
    if (operator.tryProcessElement(ready.peek(), context.timestampOf(ready.peek()))) {
      ready.poll()
      KeyedEvents.Taken
    } else KeyedEvents.Refused

  private def offerEnd(): KeyedEvents.Offer =
    if (operator.tryEndKey()) {
      keyEnds = false
      key = null
      KeyedEvents.Taken
    } else KeyedEvents.Refused
}
