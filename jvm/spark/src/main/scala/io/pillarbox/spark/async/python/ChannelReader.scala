package io.pillarbox.spark.async.python

import io.pillarbox.metered.journal.CallTicket
import io.pillarbox.spark.worker.{CallNote, Frame, FrameReader, PythonWorkerException}

/** The thread that reads the worker's frames and passes them on, until END, FATAL, or a broken channel. */
private[python] final class ChannelReader(
    name: String,
    frames: FrameReader,
    newDecoder: () => ResultDecoder,
    function: PythonAsyncFunction,
    onEnd: Frame => Unit,
    onError: Throwable => Unit
) extends Thread(name) {
  setDaemon(true)

  override def run(): Unit = {
    val decoder = newDecoder()
    try while (handle(frames.read(), decoder)) {}
    catch { case t: Throwable => onError(t) }
    finally decoder.close()
  }

  /** False once nothing more can come. */
  private def handle(frame: Frame, decoder: ResultDecoder): Boolean = frame.kind match {
    case Frame.Results =>
      function.onResults(decoder.decode(frame))
      true
    case Frame.Failures =>
      failures(frame)
      true
    case Frame.Tickets =>
      tickets(frame)
      true
    case Frame.Usage =>
      usage(frame)
      true
    case Frame.Note =>
      val note = CallNote.of(frame)
      function.onNote(note.kind, note.text)
      true
    case Frame.Told =>
      told(frame)
      true
    case Frame.End =>
      onEnd(frame)
      false
    case Frame.Fatal => throw PythonWorkerException.of(frame)
    case other => throw new IllegalStateException(s"The Python worker sent a frame of unknown type $other")
  }

  private def tickets(frame: Frame): Unit = {
    val n = frame.body.getInt
    (0 until n).foreach { _ =>
      import frame.body.{getInt, getLong}
      val (id, attempt, place, of) = (getLong, getInt, getInt, getInt)
      val text = frame.readText()
      function.addPending(id, attempt, if (text.isEmpty) null else CallTicket(text, place, of))
    }
    function.handOver()
  }

  private def usage(frame: Frame): Unit = {
    import frame.body.{getDouble, getInt, getLong}
    val units = Array.fill(getInt)(frame.readText())
    (0 until getInt).foreach { _ =>
      function.onUsage(elementId = getLong, attempt = getInt, unit = units(getInt), amount = getDouble)
    }
  }

  private def told(frame: Frame): Unit = {
    val n = frame.body.getInt
    (0 until n).foreach { _ =>
      import frame.body.{getDouble, getInt, getLong}
      val (id, attempt, unit) = (getLong, getInt, getInt)
      function.onTold(id, attempt, unit, remaining = getDouble, resetS = getDouble)
    }
  }

  private def failures(frame: Frame): Unit = {
    val n = frame.body.getInt
    var i = 0
    while (i < n) {
      val id = frame.body.getLong
      val attempt = frame.body.getInt
      val flags = frame.body.get()
      val retryAfter = frame.body.getLong
      function.addFailure(id, attempt, ChannelReader.failure(frame, flags.toInt, retryAfter))
      i += 1
    }
    function.handOver()
  }
}

private[python] object ChannelReader {
  private final val Retryable = 1
  private final val Overload = 2
  private final val PausesLimit = 4
  private final val EndsTicket = 8

  private def failure(frame: Frame, flags: Int, retryAfterMs: Long): PythonCallException = {
    val (kind, text, traceback) = (frame.readText(), frame.readText(), frame.readText())
    if (retryAfterMs >= 0)
      new PythonRetryAfterException(
        kind,
        text,
        traceback,
        retryAfterMs,
        (flags & Retryable) != 0,
        (flags & PausesLimit) != 0,
        (flags & EndsTicket) != 0
      )
    else
      new PythonCallException(
        kind,
        text,
        traceback,
        (flags & Retryable) != 0,
        (flags & Overload) != 0,
        (flags & EndsTicket) != 0
      )
  }
}
