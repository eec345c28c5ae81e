package io.pillarbox.api;

import java.io.Serializable;
import java.util.Objects;
import java.util.Optional;

/**
 * Names a state and says what it holds. Immutable: the {@code with} methods give changed copies. Two
 * descriptors of one name must agree in all but the callbacks.
 *
 * @param <S> the handle that the descriptor is exchanged for
 */
public final class StateDescriptor<S extends State> implements Serializable {
  private static final long serialVersionUID = 1L;

  /** The kinds of state. Their order is written to disk. */
  public enum Kind {
    /** A {@link ValueState}. */
    VALUE,
    /** A {@link ListState}. */
    LIST,
    /** A {@link MapState}. */
    MAP,
    /** A {@link ReducingState}. */
    REDUCING,
    /** An {@link AggregatingState}. */
    AGGREGATING
  }

  private final String name;
  private final Kind kind;
  private final TypeSerializer<?> userKeySerializer;
  private final TypeSerializer<?> valueSerializer;
  private final Object folding;
  private final StateTtl ttl;
  private final ExpiryListener onExpire;

  private StateDescriptor(
      String name,
      Kind kind,
      TypeSerializer<?> userKeySerializer,
      TypeSerializer<?> valueSerializer,
      Object folding,
      StateTtl ttl,
      ExpiryListener onExpire) {
    if (name.isEmpty()) throw new IllegalArgumentException("A state needs a name, found an empty one");
    this.name = name;
    this.kind = kind;
    this.userKeySerializer = userKeySerializer;
    this.valueSerializer = Objects.requireNonNull(valueSerializer, "A state needs a serializer");
    this.folding = folding;
    this.ttl = ttl;
    this.onExpire = onExpire;
  }

  /**
   * Describes one value a key.
   *
   * @throws IllegalArgumentException if the name is empty
   */
  public static <T> StateDescriptor<ValueState<T>> value(String name, TypeSerializer<T> serializer) {
    return new StateDescriptor<>(name, Kind.VALUE, null, serializer, null, null, null);
  }

  /**
   * Describes a list a key.
   *
   * @throws IllegalArgumentException if the name is empty
   */
  public static <T> StateDescriptor<ListState<T>> list(String name, TypeSerializer<T> serializer) {
    return new StateDescriptor<>(name, Kind.LIST, null, serializer, null, null, null);
  }

  /**
   * Describes a map a key.
   *
   * @throws IllegalArgumentException if the name is empty
   */
  public static <UK, UV> StateDescriptor<MapState<UK, UV>> map(
      String name, TypeSerializer<UK> keySerializer, TypeSerializer<UV> valueSerializer) {
    Objects.requireNonNull(keySerializer, "A map needs a serializer of its keys");
    return new StateDescriptor<>(name, Kind.MAP, keySerializer, valueSerializer, null, null, null);
  }

  /**
   * Describes state that reduces all elements of a key to one.
   *
   * @throws IllegalArgumentException if the name is empty
   */
  public static <T> StateDescriptor<ReducingState<T>> reducing(
      String name, TypeSerializer<T> serializer, ReduceFunction<T> function) {
    Objects.requireNonNull(function, "A reducing state needs a function");
    return new StateDescriptor<>(name, Kind.REDUCING, null, serializer, function, null, null);
  }

  /**
   * Describes state that keeps all elements of a key in one accumulator.
   *
   * @throws IllegalArgumentException if the name is empty
   */
  public static <IN, ACC, OUT> StateDescriptor<AggregatingState<IN, OUT>> aggregating(
      String name, TypeSerializer<ACC> serializer, AggregateFunction<IN, ACC, OUT> function) {
    Objects.requireNonNull(function, "An aggregating state needs a function");
    return new StateDescriptor<>(name, Kind.AGGREGATING, null, serializer, function, null, null);
  }

  /** Returns a copy with a time to live. */
  public StateDescriptor<S> withTtl(StateTtl ttl) {
    return new StateDescriptor<>(
        name, kind, userKeySerializer, valueSerializer, folding, Objects.requireNonNull(ttl), onExpire);
  }

  /** Returns a copy with a listener that is told of expired values. */
  public StateDescriptor<S> withExpiryListener(ExpiryListener listener) {
    return new StateDescriptor<>(
        name, kind, userKeySerializer, valueSerializer, folding, ttl, Objects.requireNonNull(listener));
  }

  /** The name of the state, unique in a function. */
  public String name() {
    return name;
  }

  public Kind kind() {
    return kind;
  }

  /** The serializer of the value, element or accumulator. */
  public TypeSerializer<?> valueSerializer() {
    return valueSerializer;
  }

  /** The serializer of a map's keys; null for the other kinds. */
  public TypeSerializer<?> userKeySerializer() {
    return userKeySerializer;
  }

  /** The {@link ReduceFunction} or {@link AggregateFunction}; null for the other kinds. */
  Object folding() {
    return folding;
  }

  /** The time to live; empty if values don't expire. */
  public Optional<StateTtl> ttl() {
    return Optional.ofNullable(ttl);
  }

  public Optional<ExpiryListener> expiryListener() {
    return Optional.ofNullable(onExpire);
  }

  @Override
  public String toString() {
    return kind.name().toLowerCase(java.util.Locale.ROOT) + " state '" + name + "'";
  }
}
