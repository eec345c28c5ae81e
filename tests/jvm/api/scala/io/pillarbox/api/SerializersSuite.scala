package io.pillarbox.api

import io.pillarbox.api.Compatibility.{AfterMigration, AsIs, Incompatible}
import org.scalacheck.{Arbitrary, Gen}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class SerializersSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  private def written[T](serializer: TypeSerializer[T], value: T): Array[Byte] = {
    val out = new OutputView(16)
    serializer.serialize(value, out)
    out.toByteArray
  }

  /** Reads back equal, uses up its bytes, and is equal and of one hash with its copy. */
  private def roundTrips[T: Arbitrary](name: String, serializer: TypeSerializer[T]): Unit =
    test(s"$name round-trips") {
      forAll { (value: T) =>
        val in = new InputView(written(serializer, value))
        val read = serializer.deserialize(in)
        assert(serializer.equal(read, value) && in.remaining == 0)
        val copied = serializer.copy(value)
        assert(serializer.equal(copied, value) && serializer.hash(copied) == serializer.hash(value))
        assert(serializer.hash(read) == serializer.hash(value))
      }
    }

  roundTrips("long", ScalaSerializers.long)
  roundTrips("int", ScalaSerializers.int)
  roundTrips("double", ScalaSerializers.double)
  roundTrips("boolean", ScalaSerializers.boolean)
  roundTrips("bytes", Serializers.ofBytes)
  roundTrips(
    "tuple",
    TestSerializers.tuple3(ScalaSerializers.long, Serializers.ofBytes, ScalaSerializers.boolean)
  )
  roundTrips(
    "list",
    TestSerializers.list(TestSerializers.tuple2(ScalaSerializers.int, ScalaSerializers.double))
  )

  /** A lone surrogate has no UTF-8, in no encoding that others can read. */
  private val text: Gen[String] = Arbitrary.arbString.arbitrary.map(_.filterNot(Character.isSurrogate))
  roundTrips("string", Serializers.ofString)(Arbitrary(text))

  test("hashes are the same for ever: they are part of what is on disk") {
    assert(ScalaSerializers.long.hash(1L << 40) == 256)
    assert(Serializers.ofString.hash("pillarbox") == "pillarbox".hashCode)
    assert(
      Serializers.ofBytes.hash(Array[Byte](1, 2, 3, 4, 5)) == Serializers.ofBytes.hash(
        Array[Byte](1, 2, 3, 4, 5)
      )
    )
    assert(Bytes.hash(Array.emptyByteArray, 0, 0) == 142593372)
  }

  test("tuples keep nulls apart from values") {
    val serializer = TestSerializers.tuple3(Serializers.ofString, Serializers.ofString, Serializers.ofString)
    for (value <- Seq((null, "", "x"), ("", null, null), (null, null, null))) {
      val read = serializer.deserialize(new InputView(written(serializer, value)))
      assert(read == value && serializer.equal(read, value))
    }
    assert(!serializer.equal(("", null, ""), ("", "", "")))
  }

  test("a copy shares nothing mutable with its original") {
    val serializer = TestSerializers.tuple2(Serializers.ofBytes, TestSerializers.list(Serializers.ofBytes))
    val value = (Array[Byte](1), Seq(Array[Byte](2)))
    val copied = serializer.copy(value)
    value._1(0) = 9
    value._2.head(0) = 9
    assert(copied._1(0) == 1 && copied._2.head(0) == 2)
  }

  test("int widens to long and double, in tuples and lists as well") {
    val old = written(ScalaSerializers.int, 7)
    def migrated[T](serializer: TypeSerializer[T], from: TypeSerializer[_], bytes: Array[Byte]): T =
      serializer.compatibilityWith(from.snapshot) match {
        case migrated: AfterMigration[T] => migrated.reader.apply(new InputView(bytes))
        case other => fail(s"expected a migration, found $other")
      }
    assert(migrated(ScalaSerializers.long, ScalaSerializers.int, old) == 7L)
    assert(migrated(ScalaSerializers.double, ScalaSerializers.int, old) == 7.0)
    val ints = TestSerializers.list(ScalaSerializers.int)
    assert(
      migrated(TestSerializers.list(ScalaSerializers.long), ints, written(ints, Seq(1, 2))) == Seq(1L, 2L)
    )
    val pair = TestSerializers.tuple2(ScalaSerializers.int, Serializers.ofString)
    val triple = TestSerializers.tuple3(ScalaSerializers.long, Serializers.ofString, Serializers.ofBytes)
    assert(migrated(triple, pair, written(pair, (3, null))) == ((3L, null, null)))
  }

  test("what can't be read is refused with a reason") {
    def reason(serializer: TypeSerializer[_], from: TypeSerializer[_]): String =
      serializer.compatibilityWith(from.snapshot) match {
        case refused: Incompatible[_] => refused.reason
        case other => fail(s"expected a refusal, found $other")
      }
    assert(reason(ScalaSerializers.int, ScalaSerializers.long).contains("long"))
    val (pair, triple) = (
      TestSerializers.tuple2(ScalaSerializers.long, ScalaSerializers.long),
      TestSerializers.tuple3(ScalaSerializers.long, ScalaSerializers.long, ScalaSerializers.long)
    )
    assert(reason(pair, triple).contains("3 fields"))
    assert(
      reason(TestSerializers.tuple2(ScalaSerializers.long, ScalaSerializers.boolean), pair)
        .contains("field 2")
    )
    assert(
      reason(TestSerializers.list(ScalaSerializers.int), TestSerializers.list(ScalaSerializers.long))
        .contains("elements")
    )
    assert(pair.compatibilityWith(pair.snapshot).isInstanceOf[AsIs[_]])
  }

  test("a snapshot of a serializer is read back equal") {
    val snapshot =
      TestSerializers.list(TestSerializers.tuple2(ScalaSerializers.int, Serializers.ofString)).snapshot
    val out = new OutputView(16)
    snapshot.writeTo(out)
    assert(SerializerSnapshot.readFrom(new InputView(out.toByteArray)) == snapshot)
  }

  test("a serializer travels to another JVM") {
    val bytes = new java.io.ByteArrayOutputStream
    new java.io.ObjectOutputStream(bytes).writeObject(ScalaSerializers.long)
    val read = new java.io.ObjectInputStream(new java.io.ByteArrayInputStream(bytes.toByteArray)).readObject()
    val serializer = read.asInstanceOf[TypeSerializer[Long]]
    val written = new OutputView(8)
    serializer.serialize(7L, written)
    assert(serializer.snapshot == ScalaSerializers.long.snapshot)
    assert(ScalaSerializers.long.deserialize(new InputView(written.toByteArray)) == 7L)
  }

  test("a descriptor travels to another JVM, with what it holds") {
    val fold: ReduceFunction[Long] = (left, right) => left + right
    val descriptor = StateDescriptor
      .reducing("sum", ScalaSerializers.long, fold)
      .withTtl(StateTtl.ofMillis(5))
      .withExpiryListener((_, _, _) => ())
    val bytes = new java.io.ByteArrayOutputStream
    new java.io.ObjectOutputStream(bytes).writeObject(descriptor)
    val read = new java.io.ObjectInputStream(new java.io.ByteArrayInputStream(bytes.toByteArray)).readObject()
    val arrived = read.asInstanceOf[StateDescriptor[ReducingState[Long]]]
    assert(
      arrived.ttl == descriptor.ttl && Folding
        .of(arrived)
        .asInstanceOf[ReduceFunction[Long]]
        .reduce(2L, 3L) == 5L
    )
  }

  test("sized regions of every length are read back, nested too") {
    for (length <- Seq(0, 1, 126, 127, 128, 129, 16383, 16384, 3000000)) {
      val out = new OutputView(16)
      val outer = out.beginSized()
      val inner = out.beginSized()
      out.writeBytes(Array.fill[Byte](length)(7))
      out.endSized(inner)
      out.writeByte(42)
      out.endSized(outer)
      val in = new InputView(out.toByteArray)
      assert(in.readVarInt() == in.remaining)
      assert(in.readBytes(in.readVarInt()).length == length && in.readByte() == 42 && in.remaining == 0)
    }
  }

  test("reading past the end is an error, whatever the length says") {
    assertThrows[IndexOutOfBoundsException](new InputView(Array[Byte](1, 2)).readInt())
    assertThrows[IndexOutOfBoundsException](new InputView(Array[Byte](1, 2)).readBytes(-1))
    assertThrows[IndexOutOfBoundsException](new InputView(Array.fill[Byte](9)(-1)).readVarInt())
    assertThrows[IndexOutOfBoundsException](new InputView(Array[Byte](5, 2)).readUtf8().toString)
  }
}
