package io.pillarbox.state

import io.pillarbox.api.StateTtl._
import io.pillarbox.api.{
  AggregateFunction,
  AggregatingState,
  ExpiryListener,
  ListState,
  MapState,
  ReduceFunction,
  ReducingState,
  StateDescriptor,
  StateTtl,
  TimeDomain,
  TypeSerializer,
  ValueState
}
import io.pillarbox.state.ScalaHandles.Living

/** Descriptors as tests write them. */
object TestState {

  def ttl(
      ms: Long,
      update: Update = Update.ON_CREATE_AND_WRITE,
      visibility: Visibility = Visibility.NEVER_RETURN_EXPIRED,
      timeDomain: TimeDomain = TimeDomain.PROCESSING_TIME
  ): StateTtl = new StateTtl(ms, update, visibility, timeDomain)

  def value[T](
      name: String,
      serializer: TypeSerializer[T],
      ttl: Option[StateTtl] = None,
      onExpire: Option[ExpiryListener] = None
  ): StateDescriptor[ValueState[T]] = StateDescriptor.value(name, serializer).living(ttl, onExpire)

  def list[T](
      name: String,
      serializer: TypeSerializer[T],
      ttl: Option[StateTtl] = None,
      onExpire: Option[ExpiryListener] = None
  ): StateDescriptor[ListState[T]] = StateDescriptor.list(name, serializer).living(ttl, onExpire)

  def map[UK, UV](
      name: String,
      keySerializer: TypeSerializer[UK],
      valueSerializer: TypeSerializer[UV],
      ttl: Option[StateTtl] = None,
      onExpire: Option[ExpiryListener] = None
  ): StateDescriptor[MapState[UK, UV]] =
    StateDescriptor.map(name, keySerializer, valueSerializer).living(ttl, onExpire)

  def reducing[T](
      name: String,
      function: ReduceFunction[T],
      serializer: TypeSerializer[T],
      ttl: Option[StateTtl] = None,
      onExpire: Option[ExpiryListener] = None
  ): StateDescriptor[ReducingState[T]] =
    StateDescriptor.reducing(name, serializer, function).living(ttl, onExpire)

  def aggregating[IN, ACC, OUT](
      name: String,
      function: AggregateFunction[IN, ACC, OUT],
      serializer: TypeSerializer[ACC],
      ttl: Option[StateTtl] = None
  ): StateDescriptor[AggregatingState[IN, OUT]] =
    StateDescriptor.aggregating(name, serializer, function).living(ttl)
}
