package io.pillarbox.spark.async.python

import io.pillarbox.spark.worker.Frame

/** Reads the frames in which a worker tells of attempts, but for their answers. Reader thread. */
private[async] final class OutcomeReader(function: PythonAsyncFunction) {

  /** Takes a frame of one of [[OutcomeReader.Kinds]]. */
  def take(frame: Frame): Unit = frame.kind match {
    case Frame.Failures => failures(frame)
    case Frame.Usage => usage(frame)
    case Frame.Told => told(frame)
    case _ => function.onNote(kind = frame.readText(), text = frame.readText())
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
      function.addFailure(id, attempt, OutcomeReader.failure(frame, flags.toInt, retryAfter))
      i += 1
    }
    function.handOver()
  }
}

private[async] object OutcomeReader {
  val Kinds: Set[Byte] = Set(Frame.Failures, Frame.Usage, Frame.Told, Frame.Note)

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
