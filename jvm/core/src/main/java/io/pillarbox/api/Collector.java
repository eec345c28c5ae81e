package io.pillarbox.api;

/** Takes the rows that a function emits. */
public interface Collector<OUT> {

  /** Emits a row. */
  void collect(OUT value);
}
