package io.pillarbox.api;

/** Takes the rows that a function emits, on the thread that called it only. */
public interface Collector<OUT> {

  /** Emits a row. */
  void collect(OUT value);
}
