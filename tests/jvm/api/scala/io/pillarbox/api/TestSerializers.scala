package io.pillarbox.api

/** Serializers with parts. */
object TestSerializers {

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
