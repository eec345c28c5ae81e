package io.pillarbox.spark.async.python

import java.util.{ArrayList => JArrayList, List => JList}

import io.pillarbox.metered.journal.CallTicket

/** A message for the writer thread to send. */
private[python] sealed abstract class Outgoing

private[python] object Outgoing {
  final case class Call(call: PythonCall) extends Outgoing
  final case class Group(calls: JList[PythonCall]) extends Outgoing
  final case class Collect(calls: JList[PythonCall], tickets: JList[CallTicket]) extends Outgoing
  final case class Cancel(call: PythonCall) extends Outgoing
  final case class GiveUp(elementId: Long) extends Outgoing
  case object End extends Outgoing
}

/**
 * Hands messages from the mailbox thread to the writer thread.
 *
 * The writer takes all messages that have come while it wrote the last frame: a single row leaves at once,
 * and under load frames grow by themselves. The queue has no bound of its own, since the operator's capacity
 * bounds it.
 */
private[python] final class CallOutbox {
  private var pending = new JArrayList[Outgoing]
  private var closed = false
  private var writerWaits = false

  /** Adds a message, or drops it after `close`. Any thread. */
  def put(message: Outgoing): Unit = synchronized {
    if (!closed) {
      pending.add(message)
      if (writerWaits) notify()
    }
  }

  /**
   * Returns all messages that wait, at least one; `null` once closed. Blocks; the writer thread only.
   *
   * @param spare an empty list to fill next
   */
  def take(spare: JArrayList[Outgoing]): JArrayList[Outgoing] = synchronized {
    while (pending.isEmpty && !closed) {
      writerWaits = true
      wait()
      writerWaits = false
    }
    if (closed) null
    else {
      val taken = pending
      pending = spare
      taken
    }
  }

  /** Drops the messages that wait and ends the writer. */
  def close(): Unit = synchronized {
    closed = true
    pending.clear()
    notifyAll()
  }
}
