package io.pillarbox.state

import io.pillarbox.state.serialization.TypeSerializer

/**
 * Names a state and says what it holds. Two descriptors of one name must agree in all but the callbacks.
 *
 * `onExpire` is called on the owner thread, once for each expired value that a read or an incremental clean-up meets,
 * after its removal and without a current key: it must not use keyed state. Compaction, the filter of full
 * snapshots and a write over an expired value don't call it.
 *
 * @tparam S the handle that the descriptor is exchanged for
 */
sealed abstract class StateDescriptor[S <: State](val kind: StateKind) {

  /** Unique in the backend, not empty. */
  def name: String

  /** The serializer of the value, element or accumulator. */
  def valueSerializer: TypeSerializer[_]

  /** The serializer of a map's keys; null for the other kinds. */
  def userKeySerializer: TypeSerializer[_] = null

  def ttl: Option[StateTtlConfig]

  def onExpire: Option[ExpiryListener]

  private[state] def hasTtl: Boolean = ttl.exists(_.isEnabled)

}

/** What a state is. The code is written to disk. */
sealed abstract class StateKind(val code: Int) extends Serializable

object StateKind {
  case object Value extends StateKind(1)
  case object List extends StateKind(2)
  case object Map extends StateKind(3)
  case object Reducing extends StateKind(4)
  case object Aggregating extends StateKind(5)

  private val all = Seq(Value, List, Map, Reducing, Aggregating)

  def ofCode(code: Int): Option[StateKind] = all.find(_.code == code)
}

/** Told of an expired value: key, namespace, user key (null but for maps), value. */
trait ExpiryListener {
  def onExpire(key: Any, namespace: Namespace, userKey: Any, value: Any): Unit
}

private[pillarbox] object ExpiryListener {

  /** Doesn't care. */
  val None: ExpiryListener = (_, _, _, _) => ()
}

final case class ValueStateDescriptor[T](
    name: String,
    valueSerializer: TypeSerializer[T],
    ttl: Option[StateTtlConfig] = None,
    onExpire: Option[ExpiryListener] = None
) extends StateDescriptor[ValueState[T]](StateKind.Value)

final case class ListStateDescriptor[T](
    name: String,
    valueSerializer: TypeSerializer[T],
    ttl: Option[StateTtlConfig] = None,
    onExpire: Option[ExpiryListener] = None
) extends StateDescriptor[ListState[T]](StateKind.List)

final case class MapStateDescriptor[UK, UV](
    name: String,
    override val userKeySerializer: TypeSerializer[UK],
    valueSerializer: TypeSerializer[UV],
    ttl: Option[StateTtlConfig] = None,
    onExpire: Option[ExpiryListener] = None
) extends StateDescriptor[MapState[UK, UV]](StateKind.Map)

final case class ReducingStateDescriptor[T](
    name: String,
    reduce: ReduceFunction[T],
    valueSerializer: TypeSerializer[T],
    ttl: Option[StateTtlConfig] = None,
    onExpire: Option[ExpiryListener] = None
) extends StateDescriptor[ReducingState[T]](StateKind.Reducing)

final case class AggregatingStateDescriptor[IN, ACC, OUT](
    name: String,
    aggregate: AggregateFunction[IN, ACC, OUT],
    valueSerializer: TypeSerializer[ACC],
    ttl: Option[StateTtlConfig] = None,
    onExpire: Option[ExpiryListener] = None
) extends StateDescriptor[AggregatingState[IN, OUT]](StateKind.Aggregating)
