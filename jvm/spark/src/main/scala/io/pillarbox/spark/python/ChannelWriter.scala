package io.pillarbox.spark.python

import java.nio.channels.SocketChannel
import java.util.{ArrayList => JArrayList}

/** The thread that turns calls into frames and writes them, so that the mailbox thread never waits for a socket. */
final private[python] class ChannelWriter(
    name: String,
    channel: SocketChannel,
    outbox: CallOutbox,
    newEncoder: () => CallEncoder,
    maxRowsPerFrame: Int,
    onError: Throwable => Unit
) extends Thread(name) {
  setDaemon(true)

  private val calls = new JArrayList[PythonCall]
  private val cancels = new JArrayList[PythonCall]

  override def run(): Unit = {
    val encoder = newEncoder()
    try loop(encoder)
    catch { case t: Throwable => onError(t) }
    finally encoder.close()
  }

  private def loop(encoder: CallEncoder): Unit = {
    var spare = new JArrayList[Outgoing]
    var batch = outbox.take(spare)
    while (batch != null) {
      write(batch, encoder)
      batch.clear()
      spare = batch
      batch = outbox.take(spare)
    }
  }

  private def write(batch: JArrayList[Outgoing], encoder: CallEncoder): Unit = {
    batch.forEach {
      case Outgoing.Call(call) =>
        flushCancels()
        calls.add(call)
        if (calls.size == maxRowsPerFrame) flushCalls(encoder)
      case Outgoing.Group(group) =>
        flush(encoder)
        Frame.write(channel, Frame.Group, encoder.encode(group).toSeq: _*)
      case Outgoing.Cancel(call) =>
        flushCalls(encoder)
        cancels.add(call)
      case Outgoing.GiveUp(elementId) =>
        flush(encoder)
        Frame.write(channel, Frame.GiveUp, Frame.buffer(8).putLong(elementId).flip())
      case Outgoing.End =>
        flush(encoder)
        Frame.write(channel, Frame.End)
    }
    flush(encoder)
  }

  private def flush(encoder: CallEncoder): Unit = {
    flushCalls(encoder)
    flushCancels()
  }

  private def flushCalls(encoder: CallEncoder): Unit =
    if (!calls.isEmpty) {
      Frame.write(channel, Frame.Calls, encoder.encode(calls).toSeq: _*)
      calls.clear()
    }

  private def flushCancels(): Unit =
    if (!cancels.isEmpty) {
      Frame.write(channel, Frame.Cancel, CallEncoder.header(cancels))
      cancels.clear()
    }
}
