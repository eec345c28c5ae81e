package io.pillarbox.api;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/**
 * Describes the type of serialised data.
 *
 * @param id the kind of serializer, for instance "long"; stable
 * @param version of its byte format
 * @param parameters what else decides the format, for instance a schema; may be empty
 * @param nested the serializers of its parts
 */
public record SerializerSnapshot(String id, int version, String parameters, List<SerializerSnapshot> nested)
    implements Serializable {

  /** Copies the list of parts. */
  public SerializerSnapshot {
    nested = List.copyOf(nested);
  }

  /** Returns version 1 without parameters and parts. */
  public static SerializerSnapshot of(String id) {
    return new SerializerSnapshot(id, 1, "", List.of());
  }

  /** Reads what {@link #writeTo} wrote. */
  public static SerializerSnapshot readFrom(InputView in) {
    String id = in.readUtf8();
    int version = in.readVarInt();
    String parameters = in.readUtf8();
    int size = in.readVarInt();
    List<SerializerSnapshot> nested = new ArrayList<>();
    for (int i = 0; i < size; i++) nested.add(readFrom(in));
    return new SerializerSnapshot(id, version, parameters, nested);
  }

  /** Appends this to {@code out}. */
  public void writeTo(OutputView out) {
    out.writeUtf8(id);
    out.writeVarInt(version);
    out.writeUtf8(parameters);
    out.writeVarInt(nested.size());
    for (SerializerSnapshot part : nested) part.writeTo(out);
  }

  @Override
  public String toString() {
    String parts = nested.stream().map(Object::toString).collect(Collectors.joining(", ", "(", ")"));
    return id + (parameters.isEmpty() ? "" : "[" + parameters + "]") + (nested.isEmpty() ? "" : parts);
  }
}
