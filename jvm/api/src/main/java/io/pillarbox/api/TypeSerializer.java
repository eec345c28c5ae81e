package io.pillarbox.api;

import java.io.Serializable;
import java.util.Arrays;

/**
 * Turns values of one type to bytes and back, and says which older bytes it can read.
 *
 * <p>A serializer is used by one thread at a time and may keep scratch space; a value it returns is the
 * caller's. Equal values must have equal bytes and equal hashes, on every machine and in every version: keys
 * are found by them.
 */
public abstract class TypeSerializer<T> implements Serializable {
  private static final long serialVersionUID = 1L;

  /** Appends the value, which is never null. */
  public abstract void serialize(T value, OutputView out);

  /**
   * Reads one value and leaves the view behind it.
   *
   * <p>A backend's view holds exactly one value, so a serializer of byte regions may take {@code
   * in.remaining()} for its length, unless it is to be nested in another one. The bytes are valid during the
   * call only: copy those that are kept.
   */
  public abstract T deserialize(InputView in);

  /** Returns a value that shares nothing mutable with {@code value}; the same object if it is immutable. */
  public abstract T copy(T value);

  /** The hash that decides the key group. It never changes; by default it is made of the bytes. */
  public int hash(T value) {
    OutputView out = new OutputView(64);
    serialize(value, out);
    return Bytes.hash(out.array(), 0, out.length());
  }

  /**
   * Tells if the two are one key. By default they are if they are {@code equals} or their bytes are the same,
   * so that a class need not have {@code equals}.
   */
  public boolean equal(T left, T right) {
    return left.equals(right) || Arrays.equals(bytes(left), bytes(right));
  }

  private byte[] bytes(T value) {
    OutputView out = new OutputView(64);
    serialize(value, out);
    return out.toByteArray();
  }

  /** Describes the type; it is written beside the data. */
  public abstract SerializerSnapshot snapshot();

  /**
   * Tells if this serializer can read what the serializer of {@code written} wrote. By default it reads its
   * own type only.
   */
  public Compatibility<T> compatibilityWith(SerializerSnapshot written) {
    return written.equals(snapshot())
        ? Compatibility.asIs()
        : Compatibility.incompatible("it was " + written + ", it is now " + snapshot());
  }
}
