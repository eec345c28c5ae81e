package io.pillarbox.spark.async.python

import java.nio.channels.SocketChannel
import java.util.{ArrayList => JArrayList, List => JList}

import io.pillarbox.spark.worker.Frame

/** The thread that writes calls as frames, so that the mailbox thread never waits for a socket. */
private[python] final class ChannelWriter(
    name: String,
    channel: SocketChannel,
    outbox: CallOutbox,
    newEncoder: () => CallEncoder,
    maxRowsPerFrame: Int,
    onTooLarge: (PythonCall, Long) => Unit,
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
        send(encoder, group, Frame.Part, Frame.Group)
      case Outgoing.Collect(calls, tickets) =>
        flush(encoder)
        Frame.write(channel, Frame.Collect, encoder.collection(calls, tickets): _*)
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
      send(encoder, calls, Frame.Calls, Frame.Calls)
      calls.clear()
    }

  private def send(encoder: CallEncoder, calls: JList[PythonCall], part: Byte, last: Byte): Unit =
    encoder.encode(
      calls,
      (body, isLast) => Frame.write(channel, if (isLast) last else part, body: _*),
      onTooLarge
    )

  private def flushCancels(): Unit =
    if (!cancels.isEmpty) {
      Frame.write(channel, Frame.Cancel, CallEncoder.header(cancels))
      cancels.clear()
    }
}
