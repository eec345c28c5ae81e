package io.pillarbox.mailbox

import java.util

/**
 * Binary heap of timers by due time in which every timer knows its index, so that any of them can be moved or
 * removed in O(log n); the JDK's `PriorityQueue` searches through all of them. For the mailbox thread only.
 *
 * J. W. J. Williams, "Algorithm 232: Heapsort", CACM 7 (1964).
 */
private[mailbox] final class TimerHeap {
  private var heap = new Array[ProcessingTimer](16)
  private var count = 0

  def isEmpty: Boolean = count == 0

  def size: Int = count

  /** The earliest due time; `Long.MaxValue` if there is no timer. */
  def earliestMs: Long = if (count == 0) Long.MaxValue else heap(0).dueMs

  /** Adds the timer, or moves it if it is in the heap. */
  def schedule(timer: ProcessingTimer, dueMs: Long): Unit = {
    if (!timer.isScheduled) append(timer, dueMs)
    else {
      timer.dueMs = dueMs
      siftUp(timer.heapIndex, timer)
      siftDown(timer.heapIndex, timer)
    }
  }

  private def append(timer: ProcessingTimer, dueMs: Long): Unit = {
    if (count == heap.length) heap = util.Arrays.copyOf(heap, count * 2)
    timer.dueMs = dueMs
    count += 1
    siftUp(count - 1, timer)
  }

  /** Removes the timer; false if it was not in the heap. */
  def remove(timer: ProcessingTimer): Boolean = {
    val present = timer.isScheduled
    if (present) unlink(timer)
    present
  }

  private def unlink(timer: ProcessingTimer): Unit = {
    val index = timer.heapIndex
    timer.heapIndex = ProcessingTimer.NotScheduled
    count -= 1
    val last = heap(count)
    heap(count) = null
    if (last ne timer) {
      siftUp(index, last)
      siftDown(last.heapIndex, last)
    }
  }

  /** Removes and returns the earliest timer if it is due at `nowMs`, else null. */
  def pollDue(nowMs: Long): ProcessingTimer =
    if (earliestMs > nowMs || count == 0) null
    else {
      val timer = heap(0)
      unlink(timer)
      timer
    }

  private def siftUp(from: Int, timer: ProcessingTimer): Unit = {
    var index = from
    while (index > 0 && heap((index - 1) >>> 1).dueMs > timer.dueMs) {
      place(heap((index - 1) >>> 1), index)
      index = (index - 1) >>> 1
    }
    place(timer, index)
  }

  private def siftDown(from: Int, timer: ProcessingTimer): Unit = {
    var index = from
    var child = smallerChild(index)
    while (child < count && heap(child).dueMs < timer.dueMs) {
      place(heap(child), index)
      index = child
      child = smallerChild(index)
    }
    place(timer, index)
  }

  private def smallerChild(index: Int): Int = {
    val left = 2 * index + 1
    if (left + 1 < count && heap(left + 1).dueMs < heap(left).dueMs) left + 1 else left
  }

  private def place(timer: ProcessingTimer, index: Int): Unit = {
    heap(index) = timer
    timer.heapIndex = index
  }
}
