package io.pillarbox.async.queue

/** What is in flight, as a snapshot keeps it: inputs, never answers. */
private[pillarbox] sealed trait StreamElement[+IN]

private[pillarbox] object StreamElement {

  /**
   * An input whose rows have not been emitted.
   *
   * @param elementId
   *   keeps the identity of the call over a restore
   * @param timestampMs
   *   or [[AsyncOutput.NoTimestamp]]
   */
  final case class Record[+IN](elementId: Long, input: IN, timestampMs: Long) extends StreamElement[IN]

  final case class Watermark(timestampMs: Long) extends StreamElement[Nothing]
}
