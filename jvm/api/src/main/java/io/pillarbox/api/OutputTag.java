package io.pillarbox.api;

import java.io.Serializable;

/**
 * Names a side output; tags are equal by their name.
 *
 * @param id as in {@code side_outputs=} of {@code pb.process_keyed}, where "main", "late" and "error" are
 *   reserved
 */
public record OutputTag<X>(String id) implements Serializable {

  /** @throws IllegalArgumentException if the name is empty */
  public OutputTag {
    if (id.isEmpty()) throw new IllegalArgumentException("A side output needs a name, found an empty one");
  }
}
