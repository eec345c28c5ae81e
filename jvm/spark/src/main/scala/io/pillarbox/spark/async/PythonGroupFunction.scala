package io.pillarbox.spark.async

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicBoolean
import java.util.{ArrayList => JArrayList}

import io.pillarbox.async.{CallGate, ResultFuture}
import io.pillarbox.mailbox.{ProcessingTimeService, ProcessingTimer}
import io.pillarbox.spark.python.PythonCall
import org.apache.spark.sql.catalyst.InternalRow

/**
 * The batch form: gathers elements and calls the Python function once for a group of them.
 *
 * A group leaves when it has `size` rows, or `waitMs` after its first one. It holds one permit of the gate from then
 * until its last element is answered or cancelled. A retried element joins a later group.
 */
final class PythonGroupFunction(
    noMatch: InternalRow,
    fatal: Throwable => Unit,
    size: Int,
    waitMs: Long,
    gate: CallGate,
    timers: ProcessingTimeService
) extends PythonAsyncFunction(noMatch, fatal) {

  private var gathering = new Group
  private val groupOf = new ConcurrentHashMap[java.lang.Long, Group]
  private val deadline = new ProcessingTimer {
    override def onProcessingTime(timestampMs: Long): Unit = send()
  }

  override def asyncInvoke(input: InternalRow, future: ResultFuture[InternalRow]): Unit = {
    register(future)
    groupOf.put(future.elementId, gathering)
    gathering.add(PythonCall(future.elementId, future.attempt, input))
    if (gathering.size == size) send()
    else if (gathering.size == 1) timers.schedule(deadline, timers.currentProcessingTime + waitMs)
  }

  override def cancel(input: InternalRow, future: ResultFuture[InternalRow]): Unit = {
    super.cancel(input, future)
    settled(future.elementId)
  }

  override def close(): Unit = {
    timers.cancel(deadline)
    super.close()
    groupOf.values.forEach(_.abandon())
  }

  override protected def settled(elementId: Long): Unit = {
    val group = groupOf.remove(elementId)
    if (group != null) group.leave(elementId)
  }

  private def send(): Unit = if (gathering.size > 0) {
    timers.cancel(deadline)
    val group = gathering
    gathering = new Group
    group.request()
  }

  /** Rows that are called together. Rows join on the mailbox thread, and leave on any. */
  final private class Group extends Runnable {
    private val calls = new JArrayList[PythonCall]
    private var sent = false
    private val holdsPermit = new AtomicBoolean

    def size: Int = synchronized(calls.size)

    def add(call: PythonCall): Unit = synchronized(calls.add(call))

    def request(): Unit = if (gate.tryAcquire(this)) run()

    /** Has got its permit; on any thread. */
    override def run(): Unit = {
      holdsPermit.set(true)
      val isLeft = synchronized {
        sent = true
        if (!calls.isEmpty) channel.callGroup(new JArrayList(calls))
        calls.isEmpty
      }
      if (isLeft) release()
    }

    def leave(elementId: Long): Unit = {
      val isOver = synchronized {
        calls.removeIf(_.elementId == elementId)
        calls.isEmpty && sent
      }
      if (isOver) release()
    }

    def abandon(): Unit = if (!gate.cancel(this)) release()

    private def release(): Unit = if (holdsPermit.compareAndSet(true, false)) gate.release()
  }
}
