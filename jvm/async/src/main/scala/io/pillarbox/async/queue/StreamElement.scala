package io.pillarbox.async.queue

import java.util

/** An element in flight, as a snapshot keeps it. */
private[pillarbox] sealed trait StreamElement[+IN, +OUT]

private[pillarbox] object StreamElement {

  /**
   * An input whose rows are not known.
   *
   * @param elementId keeps the identity of the call over a restore
   * @param timestampMs the time, or [[AsyncOutput.NoTimestamp]]
   */
  final case class Record[+IN](elementId: Long, input: IN, timestampMs: Long)
      extends StreamElement[IN, Nothing]

  /** An input whose rows are known and wait for their turn: it is not called again. */
  final case class Answered[+IN, OUT](
      elementId: Long,
      input: IN,
      timestampMs: Long,
      results: util.Collection[OUT]
  ) extends StreamElement[IN, OUT]
}
