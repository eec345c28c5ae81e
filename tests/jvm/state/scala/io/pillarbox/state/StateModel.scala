package io.pillarbox.state

import io.pillarbox.api.StateTtl._
import io.pillarbox.api.{StateTtl, TimeDomain}

/** The plainest possible keyed state: immutable maps, and TTL by its definition. */
final case class StateModel(keys: Map[String, StateModel.OneKey] = Map.empty) {
  def apply(key: String): StateModel.OneKey = keys.getOrElse(key, StateModel.OneKey())
  def updated(key: String, one: StateModel.OneKey): StateModel = copy(keys.updated(key, one))
}

object StateModel {

  /** A value and its timestamp. */
  type Timestamped[A] = (A, Long)

  final case class OneKey(
      value: Option[Timestamped[String]] = None,
      list: Vector[Timestamped[String]] = Vector.empty,
      map: Map[String, Timestamped[Long]] = Map.empty,
      sum: Option[Timestamped[Long]] = None
  )

  /** TTL at one moment. */
  final class Rules(ttl: Option[StateTtl], clock: StateClock) {
    private val isEvent = ttl.exists(_.timeDomain == TimeDomain.EVENT_TIME)
    private val now = if (isEvent) clock.watermark else clock.processingTime

    def isAlive(stamped: Timestamped[_]): Boolean = ttl.forall(config => stamped._2 + config.ttlMs > now)

    def timestamp(stored: Option[Timestamped[_]]): Long =
      if (isEvent) math.max(clock.recordTimestamp, stored.fold(Long.MinValue)(_._2)) else now

    /** What a read leaves behind of something alive. */
    def afterRead[A](stamped: Timestamped[A]): Timestamped[A] =
      if (ttl.exists(_.update == Update.ON_READ_AND_WRITE)) (stamped._1, timestamp(Some(stamped)))
      else stamped
  }
}
