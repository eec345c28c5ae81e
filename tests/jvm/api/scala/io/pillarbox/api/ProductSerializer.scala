package io.pillarbox.api

import scala.jdk.CollectionConverters._

import io.pillarbox.api.Compatibility.{AfterMigration, Incompatible}

/**
 * Tuples and case classes, field by field: a bit a field that tells null from value, then the fields that are
 * there.
 *
 * Reads what an older one with fewer fields wrote (the new ones are null), and fields whose type has been
 * widened.
 *
 * @param fields the serializers, in the order of `productIterator`
 * @param make builds the value from its fields, null where there was none
 */
final class ProductSerializer[T <: Product](fields: Seq[TypeSerializer[_]], make: Array[Any] => T)
    extends TypeSerializer[T] {
  private val parts = fields.map(_.asInstanceOf[TypeSerializer[Any]]).toArray
  private val maskBytes = (parts.length + 7) / 8

  override val snapshot: SerializerSnapshot =
    new SerializerSnapshot("product", 1, "", fields.map(_.snapshot).asJava)

  override def serialize(value: T, out: OutputView): Unit = {
    val mask = out.length
    var i = 0
    while (i < maskBytes) { out.writeByte(0); i += 1 }
    i = 0
    while (i < parts.length) {
      val field = value.productElement(i)
      if (field != null) {
        out.array(mask + i / 8) = (out.array(mask + i / 8) | (1 << (i & 7))).toByte
        parts(i).serialize(field, out)
      }
      i += 1
    }
  }

  override def deserialize(in: InputView): T = read(in, parts.length, i => parts(i).deserialize(in))

  override def copy(value: T): T = {
    val copied = new Array[Any](parts.length)
    for (i <- parts.indices) {
      val field = value.productElement(i)
      if (field != null) copied(i) = parts(i).copy(field)
    }
    make(copied)
  }

  override def hash(value: T): Int = {
    var h = 17
    var i = 0
    while (i < parts.length) {
      val field = value.productElement(i)
      h = h * 31 + (if (field == null) 0 else parts(i).hash(field))
      i += 1
    }
    h
  }

  override def equal(left: T, right: T): Boolean = parts.indices.forall { i =>
    val (l, r) = (left.productElement(i), right.productElement(i))
    if (l == null || r == null) l == r else parts(i).equal(l, r)
  }

  override def compatibilityWith(written: SerializerSnapshot): Compatibility[T] =
    if (written == snapshot) Compatibility.asIs()
    else if (written.id != snapshot.id || written.version != snapshot.version)
      super.compatibilityWith(written)
    else if (written.nested.size > parts.length)
      Compatibility.incompatible(
        s"it had ${written.nested.size} fields and has ${parts.length} now; fields can only be added"
      )
    else migration(written.nested.asScala.toSeq)

  private def migration(old: Seq[SerializerSnapshot]): Compatibility[T] = {
    val each = old.indices.map(i => parts(i).compatibilityWith(old(i)))
    each.indices.collectFirst { case i if each(i).isInstanceOf[Incompatible[_]] => (i, each(i)) } match {
      case Some((i, refused: Incompatible[_])) =>
        Compatibility.incompatible(s"field ${i + 1} changed: ${refused.reason}")
      case _ =>
        Compatibility.afterMigration { in =>
          read(
            in,
            old.size,
            i =>
              each(i) match {
                case migrated: AfterMigration[_] => migrated.reader.apply(in)
                case _ => parts(i).deserialize(in)
              }
          )
        }
    }
  }

  private def read(in: InputView, count: Int, field: Int => Any): T = {
    val mask = in.readBytes((count + 7) / 8)
    val values = new Array[Any](parts.length)
    var i = 0
    while (i < count) {
      if ((mask(i / 8) & (1 << (i & 7))) != 0) values(i) = field(i)
      i += 1
    }
    make(values)
  }
}
