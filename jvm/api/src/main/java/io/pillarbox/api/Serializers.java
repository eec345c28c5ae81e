package io.pillarbox.api;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.Arrays;

/** Serializers of the basic types. All are stateless, so one object serves every thread. */
public final class Serializers {
  private static final TypeSerializer<Long> LONG = new LongSerializer();
  private static final TypeSerializer<Integer> INT = new IntSerializer();
  private static final TypeSerializer<Double> DOUBLE = new DoubleSerializer();
  private static final TypeSerializer<Boolean> BOOLEAN = new BooleanSerializer();
  private static final TypeSerializer<String> STRING = new StringSerializer();
  private static final TypeSerializer<byte[]> BYTES = new BytesSerializer();

  private Serializers() {}

  /** 8 bytes. Reads what {@link #ofInt} wrote. */
  public static TypeSerializer<Long> ofLong() {
    return LONG;
  }

  /** 4 bytes. */
  public static TypeSerializer<Integer> ofInt() {
    return INT;
  }

  /** 8 bytes. Reads what {@link #ofInt} wrote. All NaN are one key, 0.0 and -0.0 are two. */
  public static TypeSerializer<Double> ofDouble() {
    return DOUBLE;
  }

  /** 1 byte. */
  public static TypeSerializer<Boolean> ofBoolean() {
    return BOOLEAN;
  }

  /** Length and UTF-8. */
  public static TypeSerializer<String> ofString() {
    return STRING;
  }

  /** Length and bytes; equal by content. Reads what {@link #ofString} wrote. */
  public static TypeSerializer<byte[]> ofBytes() {
    return BYTES;
  }

  /** A type whose values need no copy. */
  private abstract static class Immutable<T> extends TypeSerializer<T> {
    private static final long serialVersionUID = 1L;
    private final String id;

    Immutable(String id) {
      this.id = id;
    }

    @Override
    public final T copy(T value) {
      return value;
    }

    @Override
    public final SerializerSnapshot snapshot() {
      return SerializerSnapshot.of(id);
    }
  }

  private static final class LongSerializer extends Immutable<Long> {
    private static final long serialVersionUID = 1L;

    LongSerializer() {
      super("long");
    }

    @Override
    public void serialize(Long value, OutputView out) {
      out.writeLong(value);
    }

    @Override
    public Long deserialize(InputView in) {
      return in.readLong();
    }

    @Override
    public int hash(Long value) {
      return value.hashCode();
    }

    @Override
    public Compatibility<Long> compatibilityWith(SerializerSnapshot written) {
      return written.equals(INT.snapshot())
          ? Compatibility.afterMigration(in -> (long) in.readInt())
          : super.compatibilityWith(written);
    }
  }

  private static final class IntSerializer extends Immutable<Integer> {
    private static final long serialVersionUID = 1L;

    IntSerializer() {
      super("int");
    }

    @Override
    public void serialize(Integer value, OutputView out) {
      out.writeInt(value);
    }

    @Override
    public Integer deserialize(InputView in) {
      return in.readInt();
    }

    @Override
    public int hash(Integer value) {
      return value.hashCode();
    }
  }

  private static final class DoubleSerializer extends Immutable<Double> {
    private static final long serialVersionUID = 1L;

    DoubleSerializer() {
      super("double");
    }

    @Override
    public void serialize(Double value, OutputView out) {
      out.writeDouble(value);
    }

    @Override
    public Double deserialize(InputView in) {
      return in.readDouble();
    }

    @Override
    public int hash(Double value) {
      return value.hashCode();
    }

    @Override
    public Compatibility<Double> compatibilityWith(SerializerSnapshot written) {
      return written.equals(INT.snapshot())
          ? Compatibility.afterMigration(in -> (double) in.readInt())
          : super.compatibilityWith(written);
    }
  }

  private static final class BooleanSerializer extends Immutable<Boolean> {
    private static final long serialVersionUID = 1L;

    BooleanSerializer() {
      super("boolean");
    }

    @Override
    public void serialize(Boolean value, OutputView out) {
      out.writeBoolean(value);
    }

    @Override
    public Boolean deserialize(InputView in) {
      return in.readBoolean();
    }

    @Override
    public int hash(Boolean value) {
      return value.hashCode();
    }
  }

  private static final class StringSerializer extends Immutable<String> {
    private static final long serialVersionUID = 1L;

    StringSerializer() {
      super("string");
    }

    @Override
    public void serialize(String value, OutputView out) {
      out.writeUtf8(value);
    }

    @Override
    public String deserialize(InputView in) {
      return in.readUtf8();
    }

    /** The hash of the Java language specification, which is cached in the object. */
    @Override
    public int hash(String value) {
      return value.hashCode();
    }
  }

  private static final class BytesSerializer extends TypeSerializer<byte[]> {
    private static final long serialVersionUID = 1L;

    @Override
    public void serialize(byte[] value, OutputView out) {
      out.writeVarInt(value.length);
      out.writeBytes(value);
    }

    @Override
    public byte[] deserialize(InputView in) {
      return in.readBytes(in.readVarInt());
    }

    @Override
    public byte[] copy(byte[] value) {
      return value.clone();
    }

    @Override
    public int hash(byte[] value) {
      return Bytes.hash(value, 0, value.length);
    }

    @Override
    public boolean equal(byte[] left, byte[] right) {
      return Arrays.equals(left, right);
    }

    @Override
    public SerializerSnapshot snapshot() {
      return SerializerSnapshot.of("bytes");
    }

    @Override
    public Compatibility<byte[]> compatibilityWith(SerializerSnapshot written) {
      return written.equals(STRING.snapshot())
          ? Compatibility.afterMigration(in -> in.readUtf8().getBytes(UTF_8))
          : super.compatibilityWith(written);
    }
  }
}
