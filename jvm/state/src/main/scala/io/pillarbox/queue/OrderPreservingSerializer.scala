package io.pillarbox.queue

import io.pillarbox.api.{InputView, OutputView}

/**
 * Turns elements into bytes whose unsigned lexicographic order is the order of the elements, and back.
 *
 * An element of a smaller priority must have smaller bytes: write the priority first, with
 * [[OrderPreserving.writeLong]]. What follows breaks ties and may vary in length. Equal elements must have
 * equal bytes, and only they.
 */
private[pillarbox] trait OrderPreservingSerializer[T] {
  def serialize(element: T, out: OutputView): Unit

  /** Reads what `serialize` wrote: `in` stands at its first byte and ends with its last. */
  def deserialize(in: InputView): T
}
