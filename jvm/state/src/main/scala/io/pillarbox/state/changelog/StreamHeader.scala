package io.pillarbox.state.changelog

import io.pillarbox.api.{InputView, OutputView, SerializerSnapshot}
import io.pillarbox.state.StateClock

/**
 * The first block of a stream.
 *
 * @param isSnapshot true for all of the state, false for a log of the changes since version - 1
 * @param version the state's version once the stream has been read
 * @param firstWatermark see [[io.pillarbox.state.KeyedStateBackend.firstWatermark]]
 */
private[state] final case class StreamHeader(
    isSnapshot: Boolean,
    version: Long,
    key: SerializerSnapshot,
    states: Seq[StateMeta],
    firstWatermark: Long = StateClock.Unknown
) {
  def writeTo(out: OutputView): Unit = {
    out.writeBoolean(isSnapshot)
    out.writeLong(version)
    key.writeTo(out)
    out.writeVarInt(states.size)
    states.foreach(_.writeTo(out))
    out.writeLong(firstWatermark)
  }
}

private[state] object StreamHeader {

  def readFrom(in: InputView): StreamHeader = StreamHeader(
    in.readBoolean(),
    in.readLong(),
    SerializerSnapshot.readFrom(in),
    Seq.fill(in.readVarInt())(StateMeta.readFrom(in)),
    in.readLong()
  )
}
