package io.pillarbox.state.changelog

import scala.jdk.OptionConverters._

import io.pillarbox.api.{InputView, OutputView, SerializerSnapshot, StateDescriptor, TimeDomain}

/**
 * The description of one state in a stream, so that it can be read without the program that wrote it.
 *
 * @param id short name within the stream
 * @param timeDomain the clock of its TTL; none if the values have no timestamps
 * @param ttl the time to live in milliseconds, 0 without TTL
 * @param userKey the serializer of a map's keys
 * @param nextSequence for lists, a number above those of all elements
 */
private[pillarbox] final case class StateMeta(
    id: Int,
    name: String,
    kind: StateDescriptor.Kind,
    timeDomain: Option[TimeDomain],
    ttl: Long,
    value: SerializerSnapshot,
    userKey: Option[SerializerSnapshot],
    nextSequence: Long
) {
  def hasTimestamps: Boolean = timeDomain.isDefined

  def writeTo(out: OutputView): Unit = {
    out.writeVarInt(id)
    out.writeUtf8(name)
    out.writeByte(1 + kind.ordinal)
    out.writeByte(timeDomain.fold(0)(StateMeta.codeOf))
    out.writeLong(ttl)
    value.writeTo(out)
    out.writeBoolean(userKey.isDefined)
    userKey.foreach(_.writeTo(out))
    out.writeLong(nextSequence)
  }
}

private[state] object StateMeta {

  def of(id: Int, descriptor: StateDescriptor[_], nextSequence: Long): StateMeta = {
    val ttl = descriptor.ttl.toScala
    StateMeta(
      id,
      descriptor.name,
      descriptor.kind,
      ttl.map(_.timeDomain),
      ttl.fold(0L)(_.ttlMs),
      descriptor.valueSerializer.snapshot,
      Option(descriptor.userKeySerializer).map(_.snapshot),
      nextSequence
    )
  }

  def readFrom(in: InputView): StateMeta = StateMeta(
    in.readVarInt(),
    in.readUtf8(),
    pick("kind of state", Kinds, in.readByte()),
    Option(in.readByte()).filter(_ != 0).map(code => pick("clock of a TTL", Clocks, code)),
    in.readLong(),
    SerializerSnapshot.readFrom(in),
    if (in.readBoolean()) Some(SerializerSnapshot.readFrom(in)) else None,
    in.readLong()
  )

  private val Kinds = StateDescriptor.Kind.values.toSeq
  private val Clocks = Seq(TimeDomain.PROCESSING_TIME, TimeDomain.EVENT_TIME)

  private def codeOf(domain: TimeDomain): Int = 1 + Clocks.indexOf(domain)

  /** Picks by code, which begins with 1. */
  private def pick[T](what: String, all: Seq[T], code: Int): T =
    all.lift(code - 1).getOrElse(throw new IndexOutOfBoundsException(s"There is no $what $code"))
}
