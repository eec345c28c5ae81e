package io.pillarbox.api

import io.pillarbox.api.Compatibility.{AfterMigration, AsIs, Incompatible}

/** A sequence as one value: its length, then the elements, which are not null. */
final class ListSerializer[T](element: TypeSerializer[T]) extends TypeSerializer[Seq[T]] {
  override val snapshot: SerializerSnapshot =
    new SerializerSnapshot("list", 1, "", java.util.List.of(element.snapshot))

  override def serialize(value: Seq[T], out: OutputView): Unit = {
    out.writeVarInt(value.size)
    value.foreach(element.serialize(_, out))
  }

  override def deserialize(in: InputView): Seq[T] = read(in, element.deserialize)

  override def copy(value: Seq[T]): Seq[T] = value.map(element.copy)

  override def hash(value: Seq[T]): Int = value.foldLeft(1)((h, e) => h * 31 + element.hash(e))

  override def equal(left: Seq[T], right: Seq[T]): Boolean = left.corresponds(right)(element.equal)

  override def compatibilityWith(written: SerializerSnapshot): Compatibility[Seq[T]] =
    if (written.id != snapshot.id || written.nested.size != 1) super.compatibilityWith(written)
    else
      element.compatibilityWith(written.nested.get(0)) match {
        case _: AsIs[T] => Compatibility.asIs()
        case migrated: AfterMigration[T] => Compatibility.afterMigration(read(_, migrated.reader.apply))
        case refused: Incompatible[T] =>
          Compatibility.incompatible(s"its elements changed: ${refused.reason}")
      }

  private def read(in: InputView, one: InputView => T): Seq[T] = {
    val builder = Vector.newBuilder[T]
    var left = in.readVarInt()
    while (left > 0) {
      builder += one(in)
      left -= 1
    }
    builder.result()
  }
}
