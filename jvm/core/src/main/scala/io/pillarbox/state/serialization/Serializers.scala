package io.pillarbox.state.serialization

import java.lang.{Boolean => JBoolean, Double => JDouble, Integer => JInteger, Long => JLong}
import java.nio.charset.StandardCharsets.UTF_8
import java.util

import io.pillarbox.state.serialization.Compatibility.AfterMigration

/** Serializers of the basic types. All are stateless, so one object serves every thread. */
object Serializers {

  /** 8 bytes. Reads what [[int]] wrote. */
  val long: TypeSerializer[Long] = LongSerializer

  /** 4 bytes. */
  val int: TypeSerializer[Int] = IntSerializer

  /** 8 bytes. Reads what [[int]] wrote. All NaN are one key, 0.0 and -0.0 are two. */
  val double: TypeSerializer[Double] = DoubleSerializer

  /** 1 byte. */
  val boolean: TypeSerializer[Boolean] = BooleanSerializer

  /** Length and UTF-8. */
  val string: TypeSerializer[String] = StringSerializer

  /** Length and bytes; equal by content. */
  val bytes: TypeSerializer[Array[Byte]] = ByteArraySerializer

  def tuple2[A, B](a: TypeSerializer[A], b: TypeSerializer[B]): TypeSerializer[(A, B)] =
    new ProductSerializer[(A, B)](Seq(a, b), f => (f(0).asInstanceOf[A], f(1).asInstanceOf[B]))

  def tuple3[A, B, C](
      a: TypeSerializer[A],
      b: TypeSerializer[B],
      c: TypeSerializer[C]
  ): TypeSerializer[(A, B, C)] =
    new ProductSerializer[(A, B, C)](
      Seq(a, b, c),
      f => (f(0).asInstanceOf[A], f(1).asInstanceOf[B], f(2).asInstanceOf[C])
    )

  def list[T](element: TypeSerializer[T]): TypeSerializer[Seq[T]] = new ListSerializer(element)
}

/** A type whose values need no copy. */
private[serialization] abstract class ImmutableSerializer[T](id: String) extends TypeSerializer[T] {
  override def copy(value: T): T = value
  override val snapshot: SerializerSnapshot = SerializerSnapshot(id)
}

private object LongSerializer extends ImmutableSerializer[Long]("long") {
  override def serialize(value: Long, out: OutputView): Unit = out.writeLong(value)
  override def deserialize(in: InputView): Long = in.readLong()
  override def hash(value: Long): Int = JLong.hashCode(value)
  override def compatibilityWith(written: SerializerSnapshot): Compatibility[Long] =
    if (written == IntSerializer.snapshot) AfterMigration(_.readInt().toLong)
    else super.compatibilityWith(written)
  private def readResolve(): AnyRef = LongSerializer
}

private object IntSerializer extends ImmutableSerializer[Int]("int") {
  override def serialize(value: Int, out: OutputView): Unit = out.writeInt(value)
  override def deserialize(in: InputView): Int = in.readInt()
  override def hash(value: Int): Int = JInteger.hashCode(value)
  private def readResolve(): AnyRef = IntSerializer
}

private object DoubleSerializer extends ImmutableSerializer[Double]("double") {
  override def serialize(value: Double, out: OutputView): Unit = out.writeDouble(value)
  override def deserialize(in: InputView): Double = in.readDouble()
  override def hash(value: Double): Int = JDouble.hashCode(value)
  override def equal(left: Double, right: Double): Boolean = JDouble.compare(left, right) == 0
  override def compatibilityWith(written: SerializerSnapshot): Compatibility[Double] =
    if (written == IntSerializer.snapshot) AfterMigration(_.readInt().toDouble)
    else super.compatibilityWith(written)
  private def readResolve(): AnyRef = DoubleSerializer
}

private object BooleanSerializer extends ImmutableSerializer[Boolean]("boolean") {
  override def serialize(value: Boolean, out: OutputView): Unit = out.writeBoolean(value)
  override def deserialize(in: InputView): Boolean = in.readBoolean()
  override def hash(value: Boolean): Int = JBoolean.hashCode(value)
  private def readResolve(): AnyRef = BooleanSerializer
}

private object StringSerializer extends ImmutableSerializer[String]("string") {
  override def serialize(value: String, out: OutputView): Unit = out.writeUtf8(value)
  override def deserialize(in: InputView): String = in.readUtf8()

  /** The hash of the Java language specification, which is cached in the object. */
  override def hash(value: String): Int = value.hashCode
  private def readResolve(): AnyRef = StringSerializer
}

private object ByteArraySerializer extends TypeSerializer[Array[Byte]] {
  override val snapshot: SerializerSnapshot = SerializerSnapshot("bytes")
  override def serialize(value: Array[Byte], out: OutputView): Unit = {
    out.writeVarInt(value.length)
    out.writeBytes(value)
  }
  override def deserialize(in: InputView): Array[Byte] = in.readBytes(in.readVarInt())
  override def copy(value: Array[Byte]): Array[Byte] = value.clone()
  override def hash(value: Array[Byte]): Int = Bytes.hash(value, 0, value.length)
  override def equal(left: Array[Byte], right: Array[Byte]): Boolean = util.Arrays.equals(left, right)
  override def compatibilityWith(written: SerializerSnapshot): Compatibility[Array[Byte]] =
    if (written == StringSerializer.snapshot) AfterMigration(_.readUtf8().getBytes(UTF_8))
    else super.compatibilityWith(written)
  private def readResolve(): AnyRef = ByteArraySerializer
}
