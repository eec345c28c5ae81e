package io.pillarbox.api;

import java.io.Serializable;

/** Folds elements into the accumulator of an {@link AggregatingState}. */
public interface AggregateFunction<IN, ACC, OUT> extends Serializable {

  /** For the first element of a key. */
  ACC createAccumulator();

  /** The accumulator with the value in it; may be {@code accumulator}, changed. */
  ACC add(IN value, ACC accumulator);

  /** What {@link AggregatingState#get} returns. */
  OUT getResult(ACC accumulator);
}
