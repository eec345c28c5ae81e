package io.pillarbox.spark.async.python

import java.util.{ArrayList => JArrayList, List => JList}

/** What the writer thread sends. */
private[python] sealed abstract class Outgoing

private[python] object Outgoing {
  final case class Call(call: PythonCall) extends Outgoing
  final case class Group(calls: JList[PythonCall]) extends Outgoing
  final case class Cancel(call: PythonCall) extends Outgoing
  final case class GiveUp(elementId: Long) extends Outgoing
  case object End extends Outgoing
}

/**
 * Hands messages from the mailbox thread to the writer thread.
 *
 * The writer takes all that has come together while it wrote the last frame. So a row alone leaves at once,
 * and under load frames grow by themselves. Unbounded: the operator's capacity bounds it.
 */
private[python] final class CallOutbox {
  private var pending = new JArrayList[Outgoing]
  private var closed = false
  private var writerWaits = false

  /** From any thread. Dropped after `close`. */
  def put(message: Outgoing): Unit = synchronized {
    if (!closed) {
      pending.add(message)
      if (writerWaits) notify()
    }
  }

  /**
   * All that waits, at least one message; `null` once closed. Blocks; the writer thread only.
   *
   * @param spare
   *   an empty list to fill next
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

  /** Drops what waits and ends the writer. */
  def close(): Unit = synchronized {
    closed = true
    pending.clear()
    notifyAll()
  }
}
