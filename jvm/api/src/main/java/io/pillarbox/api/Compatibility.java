package io.pillarbox.api;

import java.util.function.Function;

/** Tells if a new {@link TypeSerializer} can read old bytes. */
public sealed interface Compatibility<T> {

  /** The bytes are the same. */
  static <T> Compatibility<T> asIs() {
    return new AsIs<>();
  }

  /** {@code reader} reads the old bytes to values of the new type; they are then written anew. */
  static <T> Compatibility<T> afterMigration(Function<InputView, T> reader) {
    return new AfterMigration<>(reader);
  }

  /** The bytes can't be read; {@code reason} says why, to be put into a sentence. */
  static <T> Compatibility<T> incompatible(String reason) {
    return new Incompatible<>(reason);
  }

  /** See {@link #asIs}. */
  record AsIs<T>() implements Compatibility<T> {}

  /** See {@link #afterMigration}. */
  record AfterMigration<T>(Function<InputView, T> reader) implements Compatibility<T> {}

  /** See {@link #incompatible}. */
  record Incompatible<T>(String reason) implements Compatibility<T> {}
}
