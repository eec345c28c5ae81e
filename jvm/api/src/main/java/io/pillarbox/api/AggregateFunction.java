package io.pillarbox.api;

import java.io.Serializable;

/** Folds elements into the accumulator of an {@link AggregatingState}. */
public interface AggregateFunction<IN, ACC, OUT> extends Serializable {

  /** Makes the accumulator for the first element of a key. */
  ACC createAccumulator();

  /** Returns the accumulator with the value in it; it may be {@code accumulator}, changed. */
  ACC add(IN value, ACC accumulator);

  /** Returns the result that {@link AggregatingState#get} gives. */
  OUT getResult(ACC accumulator);
}
