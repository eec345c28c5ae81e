package io.pillarbox.api;

import java.io.Serializable;

/** Combines two values of a {@link ReducingState}. Must be associative and must not change its arguments. */
@FunctionalInterface
public interface ReduceFunction<T> extends Serializable {

  /** Both values in one. */
  T reduce(T left, T right);
}
