package io.pillarbox.spark.async.python

import io.pillarbox.metered.journal.CallTicket
import io.pillarbox.spark.worker.{Frame, FrameReader, PythonWorkerException}

/** The thread that reads the worker's frames and passes them on, until END, FATAL, or a broken channel. */
private[python] final class ChannelReader(
    name: String,
    frames: FrameReader,
    newDecoder: () => ResultDecoder,
    function: PythonAsyncFunction,
    onEnd: Frame => Unit,
    onError: Throwable => Unit
) extends Thread(name) {
  private val outcomes = new OutcomeReader(function)
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
    case Frame.Tickets =>
      tickets(frame)
      true
    case Frame.End =>
      onEnd(frame)
      false
    case Frame.Fatal => throw PythonWorkerException.of(frame)
    case other if OutcomeReader.Kinds(other) =>
      outcomes.take(frame)
      true
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
}
