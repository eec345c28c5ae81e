package io.pillarbox.state.serialization

/**
 * Turns values of one type to bytes and back, and says which older bytes it can read.
 *
 * A serializer is used by one thread at a time and may keep scratch space; a value it returns is the caller's.
 * Equal values must have equal bytes and equal hashes, on every machine and in every version: keys are found by them.
 */
abstract class TypeSerializer[T] extends Serializable {

  /** Appends the value, which is never null. */
  def serialize(value: T, out: OutputView): Unit

  /**
   * Reads one value and leaves the view behind it.
   *
   * A backend's view holds exactly one value, so a serializer of byte regions may take `in.remaining` for its length, unless it
   * is to be nested in another one. The bytes are only valid for now: what keeps them copies them.
   */
  def deserialize(in: InputView): T

  /** A value that shares nothing mutable with `value`; the same object if it is immutable. */
  def copy(value: T): T

  /** The hash that decides the key group. Stable for ever: by default over the bytes. */
  def hash(value: T): Int = {
    val out = new OutputView(64)
    serialize(value, out)
    Bytes.hash(out.array, 0, out.length)
  }

  /** Whether the two are one key. By default `equals`. */
  def equal(left: T, right: T): Boolean = left == right

  /** What is written beside the data to know its type again. */
  def snapshot: SerializerSnapshot

  /** Whether this serializer can read what the one of `written` wrote. By default only the very same type. */
  def compatibilityWith(written: SerializerSnapshot): Compatibility[T] =
    if (written == snapshot) Compatibility.AsIs
    else Compatibility.Incompatible(s"it was $written, it is now $snapshot")
}

/**
 * The type of serialised data.
 *
 * @param id the kind of serializer, for instance "long"; stable
 * @param version of its byte format
 * @param parameters what else decides the format, for instance a schema; may be empty
 * @param nested the serializers of its parts
 */
final case class SerializerSnapshot(
    id: String,
    version: Int = 1,
    parameters: String = "",
    nested: Seq[SerializerSnapshot] = Nil
) {
  override def toString: String =
    id + (if (parameters.isEmpty) "" else s"[$parameters]") + (if (nested.isEmpty) ""
                                                               else nested.mkString("(", ", ", ")"))

  def writeTo(out: OutputView): Unit = {
    out.writeUtf8(id)
    out.writeVarInt(version)
    out.writeUtf8(parameters)
    out.writeVarInt(nested.size)
    nested.foreach(_.writeTo(out))
  }
}

object SerializerSnapshot {
  def readFrom(in: InputView): SerializerSnapshot =
    SerializerSnapshot(in.readUtf8(), in.readVarInt(), in.readUtf8(), Seq.fill(in.readVarInt())(readFrom(in)))
}

/** Whether old bytes can be read by a new serializer. */
sealed trait Compatibility[+T]

object Compatibility {

  /** The bytes are the same. */
  case object AsIs extends Compatibility[Nothing]

  /** `reader` reads the old bytes to values of the new type; they are then written anew. */
  final case class AfterMigration[T](reader: InputView => T) extends Compatibility[T]

  /** They can't be read; `reason` says why, to be put into a sentence. */
  final case class Incompatible(reason: String) extends Compatibility[Nothing]
}
