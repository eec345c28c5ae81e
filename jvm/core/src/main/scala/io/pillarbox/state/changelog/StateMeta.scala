package io.pillarbox.state.changelog

import io.pillarbox.state._
import io.pillarbox.state.serialization.{InputView, OutputView, SerializerSnapshot}

/**
 * What a stream says of one state, so that it can be read without the program that wrote it.
 *
 * @param id short name within the stream
 * @param timeCharacteristic of its TTL; 0 if the values have no timestamps
 * @param ttl in milliseconds, 0 without TTL
 * @param userKey the serializer of a map's keys
 * @param nextSequence of lists: no element has this number or a greater one
 */
private[state] final case class StateMeta(
    id: Int,
    name: String,
    kind: StateKind,
    timeCharacteristic: Int,
    ttl: Long,
    value: SerializerSnapshot,
    userKey: Option[SerializerSnapshot],
    nextSequence: Long
) {
  def hasTimestamps: Boolean = timeCharacteristic != 0

  def writeTo(out: OutputView): Unit = {
    out.writeVarInt(id)
    out.writeUtf8(name)
    out.writeByte(kind.code)
    out.writeByte(timeCharacteristic)
    out.writeLong(ttl)
    value.writeTo(out)
    out.writeBoolean(userKey.isDefined)
    userKey.foreach(_.writeTo(out))
    out.writeLong(nextSequence)
  }
}

private[state] object StateMeta {

  def of(id: Int, descriptor: StateDescriptor[_], nextSequence: Long): StateMeta = {
    val ttl = descriptor.ttl.filter(_.isEnabled)
    StateMeta(
      id,
      descriptor.name,
      descriptor.kind,
      ttl.fold(0)(_.timeCharacteristic.code),
      ttl.fold(0L)(_.ttl),
      descriptor.valueSerializer.snapshot,
      Option(descriptor.userKeySerializer).map(_.snapshot),
      nextSequence
    )
  }

  def readFrom(in: InputView): StateMeta = StateMeta(
    in.readVarInt(),
    in.readUtf8(),
    kind(in.readByte()),
    in.readByte(),
    in.readLong(),
    SerializerSnapshot.readFrom(in),
    if (in.readBoolean()) Some(SerializerSnapshot.readFrom(in)) else None,
    in.readLong()
  )

  private def kind(code: Int): StateKind =
    StateKind.ofCode(code).getOrElse(throw new IndexOutOfBoundsException(s"There is no kind of state $code"))
}
