package io.pillarbox.api;

/** One value a key. */
public interface ValueState<T> extends State {

  /** The value, or null if there is none (or it is expired). It is the stored object: don't change it. */
  T value();

  /** The value, or {@code other} if there is none. */
  default T valueOr(T other) {
    T value = value();
    return value == null ? other : value;
  }

  /** Replaces the value; null clears it. */
  void update(T value);
}
