package io.pillarbox.api

/** The [[Serializers]] of numbers by Scala's own names of their types. */
object ScalaSerializers {
  val long: TypeSerializer[Long] = Serializers.ofLong.asInstanceOf[TypeSerializer[Long]]
  val int: TypeSerializer[Int] = Serializers.ofInt.asInstanceOf[TypeSerializer[Int]]
  val double: TypeSerializer[Double] = Serializers.ofDouble.asInstanceOf[TypeSerializer[Double]]
  val boolean: TypeSerializer[Boolean] = Serializers.ofBoolean.asInstanceOf[TypeSerializer[Boolean]]
}
