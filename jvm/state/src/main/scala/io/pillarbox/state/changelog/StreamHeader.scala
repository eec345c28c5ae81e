package io.pillarbox.state.changelog

import io.pillarbox.api.{InputView, OutputView, SerializerSnapshot, TypeSerializer}
import io.pillarbox.state.{KeyedStateBackend, StateClock}

/**
 * The first block of a stream.
 *
 * @param isSnapshot true for all of the state, false for a log of the changes since version - 1
 * @param version the state's version once the stream has been read
 * @param firstWatermark see [[io.pillarbox.state.KeyedStateBackend.firstWatermark]]
 */
private[pillarbox] final case class StreamHeader(
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

  /** @throws io.pillarbox.state.StateRestoreException if its keys are of another type */
  def checkKeys(source: String, keys: TypeSerializer[_]): Unit =
    if (key != keys.snapshot) throw StateStreamFormat.mismatch(source, "the key type", key, keys.snapshot)

  /**
   * Returns the version that the state of a backend has after this stream.
   *
   * @throws io.pillarbox.state.StateRestoreException if its keys differ, or a log doesn't follow the version
   *   read so far
   */
  def versionIn(backend: KeyedStateBackend[_], source: String, nothingRead: Boolean): Long = {
    checkKeys(source, backend.keySerializer)
    if (!isSnapshot && version != backend.version + 1)
      throw StateStreamFormat.doesNotFollow(source, version, backend.version)
    if (isSnapshot && !nothingRead) math.max(backend.version, version) else version
  }
}

private[pillarbox] object StreamHeader {

  def readFrom(in: InputView): StreamHeader = StreamHeader(
    in.readBoolean(),
    in.readLong(),
    SerializerSnapshot.readFrom(in),
    Seq.fill(in.readVarInt())(StateMeta.readFrom(in)),
    in.readLong()
  )
}
