package io.pillarbox.state.changelog

import scala.jdk.OptionConverters._

import io.pillarbox.api.{Compatibility, InputView, SerializerSnapshot, StateDescriptor, TypeSerializer}
import io.pillarbox.state._

/**
 * Reads entries that were written under `meta` for `descriptor`: with wider types, added fields, TTL switched
 * on or off.
 *
 * @param sameBytes true if entries need no rewriting at all
 */
private[state] final class RestorePlan[V, UK] private (
    meta: StateMeta,
    descriptor: StateDescriptor[_],
    readValue: InputView => V,
    readUserKey: InputView => UK,
    val sameBytes: Boolean,
    now: Long
) {

  /** True if stored timestamps stay in force. */
  val keepsTimestamps =
    meta.timeDomain.exists(domain => descriptor.ttl.toScala.exists(_.timeDomain == domain))

  /** Reads the timestamp before a value, if there is one; returns now unless stored ones stay in force. */
  def timestamp(in: InputView): Long = {
    val written = if (meta.hasTimestamps) in.readLong() else StateClock.Unknown
    if (keepsTimestamps) written else now
  }

  def value(in: InputView): V = readValue(in)

  def userKey(in: InputView): UK = readUserKey(in)
}

private[state] object RestorePlan {

  /**
   * @param now the time of the state's clock, for values that start their life
   * @throws StateRegistrationException if the descriptor can't read what was written
   */
  def of[V, UK](meta: StateMeta, descriptor: StateDescriptor[_], now: Long): RestorePlan[V, UK] = {
    if (meta.kind != descriptor.kind) throw StateErrors.clash(meta.name, "kind", meta.kind, descriptor.kind)
    val value = resolve[V](descriptor.valueSerializer, meta.value, meta.name, "value type")
    val userKey =
      if (descriptor.kind != StateDescriptor.Kind.MAP) (((_: InputView) => null.asInstanceOf[UK]), true)
      else
        sameKeys[UK](descriptor.userKeySerializer, meta)
    val sameTtl = meta.timeDomain == StateMeta.of(0, descriptor, 0L).timeDomain
    new RestorePlan(meta, descriptor, value._1, userKey._1, value._2 && userKey._2 && sameTtl, now)
  }

  /** Accepts the same type only: map entries are found by the bytes of their keys. */
  private def sameKeys[UK](serializer: TypeSerializer[_], meta: StateMeta): (InputView => UK, Boolean) = {
    if (!meta.userKey.exists(serializer.compatibilityWith(_).isInstanceOf[Compatibility.AsIs[_]])) {
      val found = meta.userKey.fold("none")(_.toString)
      val reason =
        s"it was $found, it is now ${serializer.snapshot}, and entries are found by the bytes of their keys"
      throw StateErrors.incompatible(meta.name, "map key type", reason)
    }
    (serializer.asInstanceOf[TypeSerializer[UK]].deserialize(_), true)
  }

  private def resolve[T](
      serializer: TypeSerializer[_],
      written: SerializerSnapshot,
      name: String,
      what: String
  ): (InputView => T, Boolean) =
    serializer.asInstanceOf[TypeSerializer[T]].compatibilityWith(written) match {
      case _: Compatibility.AsIs[T] => (serializer.asInstanceOf[TypeSerializer[T]].deserialize(_), true)
      case migrated: Compatibility.AfterMigration[T] => (migrated.reader.apply(_), false)
      case refused: Compatibility.Incompatible[T] =>
        throw StateErrors.incompatible(name, what, refused.reason)
    }
}
